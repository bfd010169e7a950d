package stripe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

// The versions on both sides of Stripe's change of shapes.
const (
	before = "2023-10-16"
	since  = "2026-08-26.dahlia"
)

// document is JSON that a test changes.
type document = map[string]any

const (
	periodStart = 1772323200 // 2026-03-01
	periodEnd   = 1775001600 // 2026-04-01
)

// paidEvent is an invoice.paid event made of the provider's own example object of a version.
func paidEvent(t testing.TB, version string) document {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(webhooktest.SharedDir(t), "payloads", "stripe", version, "invoice.json"))
	if err != nil {
		t.Fatal(err)
	}
	var invoice document
	if err := json.Unmarshal(content, &invoice); err != nil {
		t.Fatal(err)
	}
	invoice["id"], invoice["customer"], invoice["customer_email"] = "in_1", "cus_1", "ada@example.com"
	invoice["status"], invoice["amount_paid"], invoice["currency"], invoice["number"] = "paid", 4900, "usd", "A-1"
	metadata := document{"account": "acme", "plan": "pro"}
	line := invoice["lines"].(document)["data"].([]any)[0].(document)
	line["amount"], line["period"] = 4900, document{"start": periodStart, "end": periodEnd}
	if version == before {
		invoice["subscription"], invoice["subscription_details"] = "sub_1", document{"metadata": metadata}
		price := line["price"].(document)
		price["id"], price["product"] = "price_pro", "prod_pro"
		line["type"], line["invoice_item"], line["subscription"] = "subscription", nil, "sub_1"
	} else {
		invoice["parent"] = document{"type": "subscription_details", "subscription_details": document{"metadata": metadata, "subscription": "sub_1"}}
		line["pricing"] = document{"type": "price_details", "price_details": document{"price": "price_pro", "product": "prod_pro"}}
		line["parent"] = document{"type": "subscription_item_details", "subscription_item_details": document{"proration": false, "subscription": "sub_1"}}
	}
	return document{
		"id": "evt_1", "object": "event", "api_version": version, "created": periodStart + 60, "livemode": true, "type": "invoice.paid",
		"data": document{"object": invoice},
	}
}

func invoiceOf(event document) document { return event["data"].(document)["object"].(document) }

func lineOf(event document) document {
	return invoiceOf(event)["lines"].(document)["data"].([]any)[0].(document)
}

func encode(t testing.TB, event document) []byte {
	t.Helper()
	body, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func eachVersion(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	for _, version := range []string{before, since} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			test(t, version)
		})
	}
}

var wantPaid = PaidInvoice{
	OccurredAt: time.Unix(periodStart+60, 0).UTC(), ID: "in_1", Customer: "cus_1", Subscription: "sub_1",
	Metadata: map[string]string{"account": "acme", "plan": "pro"}, Amount: 4900, Currency: "usd",
	PeriodStart: time.Unix(periodStart, 0).UTC(), PeriodEnd: time.Unix(periodEnd, 0).UTC(),
	Lines: []Line{{Price: "price_pro", Product: "prod_pro", Amount: 4900, Start: time.Unix(periodStart, 0).UTC(), End: time.Unix(periodEnd, 0).UTC()}},
}

func TestReadPaidInvoice_EveryVersion_SameFact(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		got, err := ReadPaidInvoice(encode(t, paidEvent(t, version)))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, wantPaid) {
			t.Errorf("read\n got %+v\nwant %+v", got, wantPaid)
		}
		if email, err := ReadCustomerEmail(encode(t, paidEvent(t, version))); err != nil || email != "ada@example.com" {
			t.Errorf("address %q, %v", email, err)
		}
	})
}

func TestReadPaidInvoice_OtherShapes_SameFact(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(event document, version string){
		"expanded references": func(event document, version string) {
			in := invoiceOf(event)
			in["customer"] = document{"id": "cus_1", "object": "customer", "email": "other@example.com"}
			subscription := document{"id": "sub_1", "object": "subscription"}
			if version == before {
				in["subscription"] = subscription
				lineOf(event)["price"].(document)["product"] = document{"id": "prod_pro", "object": "product"}
				return
			}
			in["parent"].(document)["subscription_details"].(document)["subscription"] = subscription
			details := lineOf(event)["pricing"].(document)["price_details"].(document)
			details["price"], details["product"] = document{"id": "price_pro"}, document{"id": "prod_pro"}
		},
		"subscription on the line only": func(event document, version string) {
			if version == before {
				invoiceOf(event)["subscription"] = nil
				return
			}
			delete(invoiceOf(event)["parent"].(document)["subscription_details"].(document), "subscription")
		},
		"unknown fields": func(event document, _ string) {
			invoiceOf(event)["ID"], invoiceOf(event)["brand_new"] = "in_other", document{"id": 1}
		},
		"a proration beside": func(event document, version string) {
			proration := document{"amount": -100, "period": document{"start": 1, "end": 2}, "proration": true}
			if version == since {
				delete(proration, "proration")
				proration["parent"] = document{"subscription_item_details": document{"proration": true}}
			}
			lines := invoiceOf(event)["lines"].(document)
			lines["data"] = append([]any{proration}, lines["data"].([]any)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				event := paidEvent(t, version)
				change(event, version)
				got, err := ReadPaidInvoice(encode(t, event))
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, wantPaid) {
					t.Errorf("read\n got %+v\nwant %+v", got, wantPaid)
				}
			})
		})
	}
}

func TestReadPaidInvoice_ConnectedAccount(t *testing.T) {
	t.Parallel()
	event := paidEvent(t, since)
	event["account"] = "acct_9"
	if got, err := ReadPaidInvoice(encode(t, event)); err != nil || got.ProviderAccount != "acct_9" {
		t.Errorf("account %q, %v", got.ProviderAccount, err)
	}
}

func TestReadPaidInvoice_NoSubscription_SaidSo(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		event := paidEvent(t, version)
		in, line := invoiceOf(event), lineOf(event)
		if version == before {
			in["subscription"], line["subscription"] = nil, nil
		} else {
			in["parent"], line["parent"] = nil, nil
		}
		if got, err := ReadPaidInvoice(encode(t, event)); err != nil || got.Subscription != "" {
			t.Errorf("subscription %q, %v", got.Subscription, err)
		}
	})
}

func TestReadPaidInvoice_Quote_NoSubscription(t *testing.T) {
	t.Parallel()
	event := paidEvent(t, since)
	lineOf(event)["parent"] = nil
	invoiceOf(event)["parent"] = document{"type": "quote_details", "quote_details": document{"quote": "qt_1"}, "subscription_details": nil}
	if got, err := ReadPaidInvoice(encode(t, event)); err != nil || got.Subscription != "" {
		t.Errorf("subscription %q, %v", got.Subscription, err)
	}
}

func TestReadPaidInvoice_Missing_NamedError(t *testing.T) {
	t.Parallel()
	set := func(of func(document) document, value any, fields ...string) func(document) {
		return func(event document) {
			for _, f := range fields {
				if value == "delete" {
					delete(of(event), f)
				} else {
					of(event)[f] = value
				}
			}
		}
	}
	envelope := func(event document) document { return event }
	data := func(event document) document { return event["data"].(document) }
	linePeriod := func(event document) document { return lineOf(event)["period"].(document) }
	var tests []struct {
		name, field string
		change      func(document)
	}
	add := func(name, field string, changes ...func(document)) {
		tests = append(tests, struct {
			name, field string
			change      func(document)
		}{name, field, func(event document) {
			for _, change := range changes {
				change(event)
			}
		}})
	}
	for _, value := range []any{"delete", nil, "", []any{}, document{}} {
		add(fmt.Sprintf("id %#v", value), "invoice.id", set(invoiceOf, value, "id"))
		add(fmt.Sprintf("customer %#v", value), "invoice.customer", set(invoiceOf, value, "customer"))
		add(fmt.Sprintf("currency %#v", value), "invoice.currency", set(invoiceOf, value, "currency"))
		add(fmt.Sprintf("created %#v", value), "created", set(envelope, value, "created"))
		add(fmt.Sprintf("amount_paid %#v", value), "invoice.amount_paid", set(invoiceOf, value, "amount_paid"))
	}
	for _, value := range []any{49.5, "4900", true, -1, json.Number("1e3"), json.Number("99999999999999999999")} {
		add(fmt.Sprintf("amount_paid %v", value), "invoice.amount_paid", set(invoiceOf, value, "amount_paid"))
	}
	for _, value := range []any{-49.5, "-4900", document{}, json.Number("-99999999999999999999")} {
		add(fmt.Sprintf("line's amount %v", value), "invoice.lines.data[].amount", set(lineOf, value, "amount"))
	}
	for _, value := range []any{-1, 0, "1772323260", 1772323260000, latest + 1, json.Number("1e9"), json.Number("99999999999999999999")} {
		add(fmt.Sprintf("created %#v", value), "created", set(envelope, value, "created"))
		add(fmt.Sprintf("line's start %#v", value), "invoice.lines.data[].period.start", set(linePeriod, value, "start"))
		add(fmt.Sprintf("line's end %#v", value), "invoice.lines.data[].period.end", set(linePeriod, value, "end"))
		add(fmt.Sprintf("start %#v", value), "invoice.period_start", set(invoiceOf, "delete", "lines"), set(invoiceOf, value, "period_start"))
		add(fmt.Sprintf("end %#v", value), "invoice.period_end", set(invoiceOf, "delete", "lines"), set(invoiceOf, value, "period_end"))
	}
	for _, value := range []string{"a\x00b", "a\nb", "\u200b", "a\ufffd", strings.Repeat("a", mostText+1)} {
		add(fmt.Sprintf("account %q", value), "account", set(envelope, value, "account"))
		add(fmt.Sprintf("id %q", value), "invoice.id", set(invoiceOf, value, "id"))
		add(fmt.Sprintf("customer %q", value), "invoice.customer", set(invoiceOf, document{"id": value}, "customer"))
		add(fmt.Sprintf("subscription %q", value), "invoice.subscription", set(invoiceOf, value, "subscription"))
		add(fmt.Sprintf("currency %q", value), "invoice.currency", set(invoiceOf, value, "currency"))
	}
	add("currency by name", "invoice.currency", set(invoiceOf, "dollars", "currency"))
	add("status open", "invoice.status", set(invoiceOf, "open", "status"))
	add("status null", "invoice.status", set(invoiceOf, nil, "status"))
	for _, value := range []any{document{"object": "subscription"}, "", 7, []any{}} {
		add(fmt.Sprintf("subscription %#v", value), "invoice.subscription",
			set(invoiceOf, value, "subscription"), set(invoiceOf, nil, "parent"), set(lineOf, nil, "subscription", "parent"))
	}
	for _, value := range []any{
		document{}, "sub_1", document{"type": "subscription_details", "subscription_details": document{"metadata": document{}}},
		document{"type": "quote\x00", "quote_details": nil}, document{"type": "billing_cadence_details", "billing_cadence_details": document{}},
	} {
		add(fmt.Sprintf("parent %v", value), "invoice.parent", set(invoiceOf, value, "parent"), set(invoiceOf, nil, "subscription"), set(lineOf, nil, "subscription", "parent"))
	}
	add("thin event", "data.object", set(data, "delete", "object"))
	add("no data", "data.object", set(envelope, nil, "data"))
	add("neither shape", "invoice.subscription", set(invoiceOf, "delete", "subscription", "parent"), set(lineOf, "delete", "subscription", "parent"))
	add("no period", "invoice.lines.data[].period", set(invoiceOf, "delete", "lines", "period_start"))
	add("half a period", "invoice.lines.data[].period", set(invoiceOf, "delete", "lines", "period_end"))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				event := paidEvent(t, version)
				tt.change(event)
				got, err := ReadPaidInvoice(encode(t, event))
				var field *FieldError
				if !errors.As(err, &field) || field.Field != tt.field || field.Reason == "" {
					t.Errorf("error %v, want one about %s", err, tt.field)
				}
				if !reflect.DeepEqual(got, PaidInvoice{}) {
					t.Errorf("something was read all the same: %+v", got)
				}
			})
		})
	}
}

func TestReadPaidInvoice_NoJSONObject_NamedError(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "null", "[]", "1", "{", `{"id":"evt_1"} x`, "{\"id\":\"\xff\"}", "\x00"} {
		var field *FieldError
		if _, err := ReadPaidInvoice([]byte(body)); !errors.As(err, &field) || field.Field != "body" {
			t.Errorf("%q: error %v, want one about the body", body, err)
		}
	}
}

func FuzzReadPaidInvoice(f *testing.F) {
	f.Add(encode(f, paidEvent(f, before)))
	f.Add(encode(f, paidEvent(f, since)))
	milliseconds := paidEvent(f, since)
	milliseconds["created"] = 1772323260000
	f.Add(encode(f, milliseconds))
	nul := paidEvent(f, before)
	lineOf(nul)["price"].(document)["id"] = "price\x00"
	f.Add(encode(f, nul))
	f.Add([]byte(`{"created":1,"data":{"object":{"id":{"id":"x"}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := bytes.Clone(body)
		got, err := ReadPaidInvoice(body)
		if !bytes.Equal(kept, body) {
			t.Fatal("the body was written to")
		}
		if err != nil {
			var field *FieldError
			if !errors.As(err, &field) || field.Field == "" {
				t.Fatalf("error %v names no field", err)
			}
			if strings.Contains(err.Error(), "\x00") || !utf8.ValidString(err.Error()) {
				t.Fatalf("%q cannot be stored", err)
			}
			return
		}
		if got.ID == "" || got.Customer == "" || got.Currency == "" || got.OccurredAt.IsZero() || got.PeriodStart.IsZero() || got.PeriodEnd.IsZero() {
			t.Fatalf("a field is zero without an error: %+v", got)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatalf("cannot be an activity's result: %v", err)
		}
		bought, err := got.Purchase(map[string]string{"price_pro": "pro"})
		if err != nil && err.Error() == "" {
			t.Fatal("an error without a reason")
		}
		for _, s := range []string{got.ProviderAccount, got.ID, got.Customer, got.Subscription, got.Currency, bought.Plan, fmt.Sprint(err)} {
			if strings.Contains(s, "\x00") || !utf8.ValidString(s) {
				t.Fatalf("%q cannot be stored", s)
			}
		}
	})
}

func TestPlan(t *testing.T) {
	t.Parallel()
	prices := map[string]string{"price_starter": "starter", "price_pro": "pro", "pro_monthly": "pro", "prod_enterprise": "enterprise"}
	at := func(month int) time.Time { return time.Date(2026, time.Month(month), 1, 0, 0, 0, 0, time.UTC) }
	for name, tt := range map[string]struct {
		lines    []Line
		metadata map[string]string
		want     string
		err      string
	}{
		"by price":                      {lines: []Line{{Price: "price_pro"}}, want: "pro"},
		"by lookup key":                 {lines: []Line{{Price: "price_x", LookupKey: "pro_monthly"}}, want: "pro"},
		"by product":                    {lines: []Line{{Price: "price_x", Product: "prod_enterprise"}}, want: "enterprise"},
		"price before product":          {lines: []Line{{Price: "price_pro", Product: "prod_enterprise"}}, want: "pro"},
		"map before metadata":           {lines: []Line{{Price: "price_pro"}}, metadata: map[string]string{"plan": "starter"}, want: "pro"},
		"metadata":                      {lines: []Line{{Price: "price_x"}}, metadata: map[string]string{"plan": "starter"}, want: "starter"},
		"add-on beside the plan":        {lines: []Line{{Price: "price_seats"}, {Price: "price_pro"}}, want: "pro"},
		"the later period":              {lines: []Line{{Price: "price_pro", End: at(5)}, {Price: "price_starter", End: at(4)}}, want: "pro"},
		"the later period, other order": {lines: []Line{{Price: "price_starter", End: at(4)}, {Price: "price_pro", End: at(5)}}, want: "pro"},
		"a credit for the old plan":     {lines: []Line{{Price: "price_starter", Amount: -5, End: at(4)}, {Price: "price_pro", Amount: 9, End: at(4)}}, want: "pro"},
		"the credit comes last":         {lines: []Line{{Price: "price_pro", Amount: 9, End: at(4)}, {Price: "price_starter", Amount: -5, End: at(4)}}, want: "pro"},
		"a credit for a longer period":  {lines: []Line{{Price: "price_starter", Amount: -5, End: at(9)}, {Price: "price_pro", Amount: 9, End: at(4)}}, want: "pro"},
		"a tie before the later period": {lines: []Line{{Price: "price_starter", End: at(4)}, {Price: "price_pro", End: at(4)}, {Product: "prod_enterprise", End: at(5)}}, want: "enterprise"},
		"a plan twice":                  {lines: []Line{{Price: "price_pro", End: at(3)}, {Price: "price_pro", End: at(5)}, {Price: "price_starter", End: at(4)}}, want: "pro"},
		"two credits":                   {lines: []Line{{Price: "price_starter", Amount: -5, End: at(4)}, {Price: "price_pro", Amount: -9, End: at(4)}}, err: "nothing_bought: "},
		"two plans":                     {lines: []Line{{Price: "price_starter", End: at(4)}, {Price: "price_pro", End: at(4)}}, err: "plan_ambiguous: the invoice's lines name the plans starter and pro"},
		"unknown price":                 {lines: []Line{{Price: "price_x", Product: "prod_x"}}, err: "plan_unknown: none of price_x, prod_x stands in plans.prices"},
		"metadata with NUL":             {metadata: map[string]string{"plan": "pro\x00"}, err: `plan_unusable: the subscription's metadata.plan "pro\x00" has unprintable`},
		"metadata too long":             {metadata: map[string]string{"plan": strings.Repeat("p", mostText+1)}, err: "plan_unusable: the subscription's metadata.plan has 101 bytes"},
		"metadata that is not used":     {lines: []Line{{Price: "price_pro"}}, metadata: map[string]string{"plan": "pro\x00"}, want: "pro"},
		"unknown price with NUL":        {lines: []Line{{Price: "price\x00"}}, err: `plan_unknown: none of price\x00 stands`},
		"no lines":                      {err: "plan_unknown: none of the (absent) prices"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := PaidInvoice{Lines: tt.lines, Metadata: tt.metadata}.Purchase(prices)
			if got.Plan != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("plan %q, %v; want %q, %q", got.Plan, err, tt.want, tt.err)
			}
		})
	}
}
