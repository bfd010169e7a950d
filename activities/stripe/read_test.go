package stripe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// events returns one event about each object that has facts.
var events = map[string]func(t testing.TB, version string) document{
	"subscription": func(t testing.TB, version string) document {
		event := subscriptionEvent(t, version, "customer.subscription.updated")
		event["data"].(document)["previous_attributes"] = document{"status": "trialing"}
		return event
	},
	"invoice": func(t testing.TB, version string) document { return invoiceEvent(t, version, "invoice.paid") },
	"charge":  func(t testing.TB, version string) document { return chargeEvent(t, version, "charge.refunded") },
	"payment_intent": func(t testing.TB, version string) document {
		return paymentIntentEvent(t, version, "payment_intent.succeeded")
	},
	"checkout.session": func(t testing.TB, version string) document {
		return checkoutEvent(t, version, "checkout.session.completed")
	},
	"refund":      func(t testing.TB, version string) document { return refundEvent(t, version, "refund.updated") },
	"dispute":     func(t testing.TB, version string) document { return disputeEvent(t, version, "charge.dispute.created") },
	"customer":    func(t testing.TB, version string) document { return customerEvent(t, version, "customer.updated") },
	"credit_note": func(t testing.TB, version string) document { return creditNoteEvent(t, version, "credit_note.created") },
	"radar.early_fraud_warning": func(t testing.TB, version string) document {
		return warningEvent(t, version, "radar.early_fraud_warning.created")
	},
	"invoice_payment": func(t testing.TB, version string) document {
		return invoicePaymentEvent(t, version, "invoice_payment.paid")
	},
}

// versionsOf returns the API versions in which an object exists: 2023-10-16 has no invoice payments.
func versionsOf(name string) []string {
	if name == "invoice_payment" {
		return []string{basil, dahlia, endive}
	}
	return []string{before, basil, dahlia, endive}
}

// eachEvent runs a test for each object in each version.
func eachEvent(t *testing.T, test func(t *testing.T, name, version string, event document)) {
	t.Helper()
	for name, event := range events {
		for _, version := range versionsOf(name) {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				test(t, name, version, event(t, version))
			})
		}
	}
}

func TestRead_OtherObjects_NoFact(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for _, name := range []string{"price", "product", "payment_method", "setup_intent", "subscription_schedule", "invoiceitem"} {
			event := eventOf(version, name+".updated", example(t, version, name))
			if facts, err := Read(encode(t, event), subjectOf(event)); len(facts) != 0 || err != nil {
				t.Errorf("%s: %v, %v", name, facts, err)
			}
		}
		event := customerEvent(t, version, "customer.deleted")
		if facts, err := Read(encode(t, event), subjectOf(event)); len(facts) != 0 || err != nil {
			t.Errorf("customer.deleted: %v, %v", facts, err)
		}
	})
}

func TestReadObject_SameDataAtTheSubjectsTime(t *testing.T) {
	t.Parallel()
	eachEvent(t, func(t *testing.T, _, _ string, event document) {
		s := subjectOf(event)
		s.OccurredAt = at(occurred + 5)
		facts, err := ReadObject(encode(t, objectOf(event)), s, fact.FromFetch)
		if err != nil || len(withoutLinks(facts)) != 1 {
			t.Fatalf("%v, %v", facts, err)
		}
		want := read(t, event)
		want.OccurredAt, want.Rank, want.Origin = at(occurred+5), fact.RankFetched, fact.FromFetch
		if want.Subscription != nil {
			want.Subscription.Before = nil
		}
		if want.Payment != nil {
			want.Payment.ToldAlone = false // a fetched charge contains its refunds
		}
		same(t, facts[0], want)
	})
}

// A connected account controls its own metadata and lookup keys. Only the configuration of the source maps it to an
// account.
func TestRead_ConnectedAccount_DecidesNothing(t *testing.T) {
	t.Parallel()
	eachEvent(t, func(t *testing.T, name, version string, event document) {
		event["account"] = "acct_9"
		objectOf(event)["metadata"] = document{"account": "acme\x00", "plan": "enterprise\x00"}
		s := subjectOf(event)
		switch name {
		case "customer": // a customer contains nothing else that facts use
			if facts, err := Read(encode(t, event), s); len(facts) != 0 || err != nil {
				t.Errorf("%v, %v", facts, err)
			}
			return
		case "subscription":
			set(itemOf(event)["price"].(document), document{"id": "price_evil", "product": "prod_evil", "lookup_key": "pro_monthly"})
		case "invoice":
			setLines(event, version, []sold{{kind: recurring, price: "price_evil", start: periodStart, end: periodEnd}})
			subscriptionDetails(event, version)["metadata"] = document{"account": "acme", "plan": "enterprise"}
			if version == before {
				lineOf(event)["price"].(document)["lookup_key"] = "pro_monthly"
			}
		case "checkout.session":
			objectOf(event)["client_reference_id"] = "acme\x00"
		}
		facts, err := Read(encode(t, event), s)
		if err != nil || len(withoutLinks(facts)) != 1 {
			t.Fatalf("%v, %v", facts, err)
		}
		if facts[0].ProviderAccount != "acct_9" {
			t.Errorf("account %q", facts[0].ProviderAccount)
		}
		if told := string(encode(t, facts[0].Data)); strings.Contains(told, "acme") || strings.Contains(told, "enterprise") || strings.Contains(told, "pro_monthly") {
			t.Errorf("the connected account decided: %s", told)
		}
	})
}

// Every text in an object counts as personal data, unless a fact is known to need it.
func TestRead_NothingPersonalInFacts(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{}
	for name := range strings.FieldsSeq("id object customer customer_account status currency price product lookup_key usage_type subscription invoice charge " +
		"payment_intent latest_charge type fraud_type collection_method billing_reason reason mode payment_status client_reference_id account number") {
		needed[name] = true
	}
	const canary = "CANARY-4f1d"
	var poison func(v any) any
	poison = func(v any) any {
		switch v := v.(type) {
		case document:
			for name, inner := range v {
				if inner != nil && needed[name] {
					if nested, ok := inner.(document); ok {
						v[name] = poison(nested)
					}
					continue
				}
				v[name] = poison(inner)
			}
			for _, name := range []string{"email", "name", "phone", "address", "description", "url", "last4", "ip"} {
				v[name] = canary
			}
			return v
		case []any:
			for i := range v {
				v[i] = poison(v[i])
			}
			return v
		case string:
			return canary
		}
		return v
	}
	eachEvent(t, func(t *testing.T, _, _ string, event document) {
		o := poison(objectOf(event)).(document)
		for field := range strings.FieldsSeq("customer_email customer_name customer_phone customer_address customer_tax_ids receipt_email receipt_url " +
			"hosted_invoice_url invoice_pdf footer description statement_descriptor customer_details billing_details shipping evidence client_secret") {
			o[field] = canary
		}
		if told := encode(t, read(t, event)); bytes.Contains(told, []byte(canary)) {
			t.Errorf("%s", told)
		}
	})
}

func TestRead_Unreadable_ReviewNamesTheField(t *testing.T) {
	t.Parallel()
	type change = func(event document, version string)
	in := func(of func(document) document, field string, value any) change {
		return func(event document, _ string) {
			if of(event)[field] = value; value == "delete" {
				delete(of(event), field)
			}
		}
	}
	object := func(field string, value any) change { return in(objectOf, field, value) }
	envelope := func(event document) document { return event }
	nested := func(name string) func(document) document {
		return func(event document) document { return objectOf(event)[name].(document) }
	}
	linePeriod := func(event document) document { return lineOf(event)["period"].(document) }
	noSubscription := func(event document) {
		setLines(event, before, []sold{{kind: standalone, price: "price_x", start: periodStart, end: periodEnd}})
		set(objectOf(event), document{"subscription": nil, "parent": nil})
	}
	type test struct {
		name, of, code, field string
		change                change
	}
	var tests []test
	add := func(name, of, code, field string, change change) {
		tests = append(tests, test{of + " " + name, of, code, field, change})
	}
	broken := []any{"a\x00b", "a\nb", "\u200b", "a\ufffd", strings.Repeat("a", mostPrice+1)}
	for _, value := range []any{"delete", nil, "", []any{}, document{}} {
		for of, fields := range map[string]string{
			"subscription": "id customer status", "invoice": "id customer status currency", "charge": "id status currency", "payment_intent": "id status currency",
			"checkout.session": "id mode payment_status currency", "refund": "id status currency", "dispute": "id status currency charge", "invoice_payment": "id invoice currency",
		} {
			for field := range strings.FieldsSeq(fields) {
				add(fmt.Sprintf("%s %#v", field, value), of, Unreadable, of+"."+field, object(field, value))
			}
		}
		add(fmt.Sprintf("customer without ID %#v", value), "customer", Unreadable, "customer.id", object("id", value))
		add(fmt.Sprintf("created %#v", value), "invoice", Unreadable, "created", in(envelope, "created", value))
		add(fmt.Sprintf("item's price %#v", value), "subscription", Unreadable, "subscription.items.data[].price", in(itemOf, "price", value))
		add(fmt.Sprintf("data.object %#v", value), "invoice", Unreadable, "data.object", func(event document, _ string) {
			if event["data"].(document)["object"] = value; value == "delete" {
				delete(event["data"].(document), "object")
			}
		})
		add(fmt.Sprintf("object's name %#v", value), "invoice", Unreadable, "data.object.object", object("object", value))
	}
	for _, value := range []any{"delete", nil, "", document{}, []any{1}} {
		add(fmt.Sprintf("items %#v", value), "subscription", Unreadable, "subscription.items.data", in(nested("items"), "data", value))
		add(fmt.Sprintf("lines %#v", value), "invoice", Unreadable, "invoice.lines.data", in(nested("lines"), "data", value))
	}
	for _, value := range []any{49.5, "4900", true, -1, json.Number("1e3"), json.Number("99999999999999999999")} {
		for of, field := range map[string]string{
			"invoice": "amount_paid", "charge": "amount_refunded", "payment_intent": "amount", "checkout.session": "amount_total", "refund": "amount", "dispute": "amount",
		} {
			add(fmt.Sprintf("%s %v", field, value), of, Unreadable, of+"."+field, object(field, value))
		}
		add(fmt.Sprintf("item's quantity %v", value), "subscription", Unreadable, "subscription.items.data[].quantity", in(itemOf, "quantity", value))
		add(fmt.Sprintf("line's quantity %v", value), "invoice", Unreadable, "invoice.lines.data[].quantity", in(lineOf, "quantity", value))
	}
	for _, value := range []any{-49.5, "-4900", document{}, json.Number("-99999999999999999999")} {
		add(fmt.Sprintf("line's amount %v", value), "invoice", Unreadable, "invoice.lines.data[].amount", in(lineOf, "amount", value))
	}
	for _, value := range []any{-1, 0, "1772323260", 1772323260000, latest + 1, json.Number("1e9"), json.Number("99999999999999999999")} {
		add(fmt.Sprintf("created %#v", value), "invoice", Unreadable, "created", in(envelope, "created", value))
		add(fmt.Sprintf("trial_end %#v", value), "subscription", Unreadable, "subscription.trial_end", object("trial_end", value))
		add(fmt.Sprintf("line's start %#v", value), "invoice", Unreadable, "invoice.lines.data[].period.start", in(linePeriod, "start", value))
		add(fmt.Sprintf("line's end %#v", value), "invoice", Unreadable, "invoice.lines.data[].period.end", in(linePeriod, "end", value))
		add(fmt.Sprintf("due_by %#v", value), "dispute", Unreadable, "dispute.evidence_details.due_by", in(nested("evidence_details"), "due_by", value))
	}
	for _, value := range broken {
		add(fmt.Sprintf("id %q", value), "invoice", Unreadable, "invoice.id", object("id", value))
		add(fmt.Sprintf("customer %q", value), "invoice", Unreadable, "invoice.customer", object("customer", document{"id": value}))
		add(fmt.Sprintf("subscription %q", value), "invoice", Unreadable, "invoice.subscription", object("subscription", value))
		add(fmt.Sprintf("status %q", value), "refund", Unreadable, "refund.status", object("status", value))
		add(fmt.Sprintf("item's price %q", value), "subscription", Unreadable, "subscription.items.data[].price", in(itemOf, "price", document{"id": value}))
		add(fmt.Sprintf("account %q", value), "subscription", AccountUnusable, "subscription.metadata.account", in(nested("metadata"), "account", value))
		add(fmt.Sprintf("account %q", value), "customer", AccountUnusable, "customer.metadata.account", in(nested("metadata"), "account", value))
		add(fmt.Sprintf("reference %q", value), "checkout.session", AccountUnusable, "checkout.session.client_reference_id", object("client_reference_id", value))
		add(fmt.Sprintf("plan %q", value), "subscription", PlanUnusable, "subscription.metadata.plan", func(event document, _ string) {
			itemOf(event)["price"] = document{"id": "price_x"}
			objectOf(event)["metadata"] = document{"plan": value}
		})
	}
	for _, value := range []string{"dollars", "USD", "us", "x x", "zz\x00"} {
		add("currency "+value, "invoice", Unreadable, "invoice.currency", object("currency", value))
		add("currency "+value, "refund", Unreadable, "refund.currency", object("currency", value))
	}
	for _, value := range []any{document{"object": "subscription"}, "", 7, []any{}} {
		add(fmt.Sprintf("subscription %#v", value), "invoice", Unreadable, "invoice.subscription", func(event document, _ string) {
			noSubscription(event)
			objectOf(event)["subscription"] = value
		})
	}
	for _, value := range []any{
		document{}, "sub_1", document{"type": "subscription_details", "subscription_details": document{"metadata": document{}}},
		document{"type": "quote\x00", "quote_details": nil}, document{"type": "billing_cadence_details", "billing_cadence_details": document{}},
	} {
		add(fmt.Sprintf("parent %v", value), "invoice", Unreadable, "invoice.parent", func(event document, _ string) {
			noSubscription(event)
			objectOf(event)["parent"] = value
		})
	}
	add("of neither shape", "invoice", Unreadable, "invoice.subscription", func(event document, _ string) {
		noSubscription(event)
		delete(objectOf(event), "subscription")
		delete(objectOf(event), "parent")
	})
	add("two dots", "subscription", AccountUnusable, "subscription.metadata.account", object("metadata", document{"account": ".."}))
	add("too many lines", "invoice", Unreadable, "invoice.lines.data", func(event document, version string) {
		setLines(event, version, make([]sold, mostElements+1))
	})
	add("movement without amount", "dispute", Unreadable, "dispute.balance_transactions[].amount", object("balance_transactions", []any{document{"id": "txn_1", "currency": "usd"}}))
	add("movement as ID", "dispute", Unreadable, "dispute.balance_transactions", object("balance_transactions", []any{"txn_1"}))
	add("thin", "invoice", Thin, "data.object", in(envelope, "object", "v2.core.event"))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, version := range versionsOf(tt.of) {
				event := events[tt.of](t, version)
				tt.change(event, version)
				facts, err := Read(encode(t, event), subjectOf(event))
				var review *ReviewError
				if !errors.As(err, &review) || review.Code != tt.code || review.Field != tt.field || len(review.Reason) <= len(review.Field+": ") {
					t.Errorf("%s: error %v, want %s about %s", version, err, tt.code, tt.field)
				}
				if facts != nil {
					t.Errorf("%s: something was read all the same: %s", version, encode(t, facts))
				}
			}
		})
	}
}

// Events of a later release run if the parser can read them. Otherwise the reason names the likely cause.
func TestRead_UnknownVersion_ReadOrTheReason(t *testing.T) {
	t.Parallel()
	const unknown = "2027-03-31.fennel"
	for name, event := range events {
		e := event(t, endive)
		want, err := Read(encode(t, e), subjectOf(e))
		if err != nil {
			t.Fatal(err)
		}
		e["api_version"] = unknown
		if got, err := Read(encode(t, e), subjectOf(e)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s of %s: %v, %v, want %v", name, unknown, got, err, want)
		}
	}
	for version, hint := range map[string]bool{unknown: true, endive: false} {
		e := invoiceEvent(t, endive, "invoice.paid")
		e["api_version"] = version
		delete(objectOf(e), "status")
		var review *ReviewError
		if _, err := Read(encode(t, e), subjectOf(e)); !errors.As(err, &review) || review.Code != Unreadable ||
			strings.Contains(review.Reason, "the parser was not tested with the API version") != hint {
			t.Errorf("%s: %v, hint wanted: %t", version, err, hint)
		}
	}
}

func TestRead_NoJSONObject_Review(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "null", "[]", "1", "{", `{"id":"evt_1"} x`, "{\"id\":\"\xff\"}", "\x00"} {
		for _, read := range []func() ([]fact.Fact, error){
			func() ([]fact.Fact, error) { return Read([]byte(body), fact.Subject{}) },
			func() ([]fact.Fact, error) {
				return ReadObject([]byte(body), fact.Subject{}, fact.FromFetch)
			},
		} {
			facts, err := read()
			var review *ReviewError
			if !errors.As(err, &review) || review.Code != Unreadable || review.Field != "body" || facts != nil {
				t.Errorf("%q: %v, %v; want a review about the body", body, facts, err)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for name, event := range events {
		for _, version := range versionsOf(name) {
			f.Add(encode(f, event(f, version)), event(f, version)["type"].(string), false)
		}
	}
	milliseconds := invoiceEvent(f, basil, "invoice.paid")
	milliseconds["created"] = occurred * 1000
	f.Add(encode(f, milliseconds), "invoice.paid", false)
	nul := subscriptionEvent(f, before, "customer.subscription.updated")
	itemOf(nul)["price"].(document)["id"] = "price\x00"
	f.Add(encode(f, nul), "customer.subscription.updated", true)
	f.Add([]byte(`{"created":1,"data":{"object":{"object":"charge","id":{"id":"x"}}}}`), "charge.updated", false)
	f.Fuzz(func(t *testing.T, body []byte, eventType string, connected bool) {
		kept := bytes.Clone(body)
		s := fact.Subject{Provider: "stripe", Mode: "live", EventType: "invoice.paid"}
		if strings.ToValidUTF8(eventType, "") == eventType && !strings.Contains(eventType, "\x00") {
			s.EventType = eventType // the ingress has already checked the type
		}
		if connected {
			s.ProviderAccount = "acct_9"
		}
		facts, err := Read(body, s)
		if !bytes.Equal(kept, body) {
			t.Fatal("the body was written to")
		}
		if err != nil {
			var review *ReviewError
			if !errors.As(err, &review) || review.Code == "" || review.Field == "" || facts != nil {
				t.Fatalf("error %v is no review that names a field", err)
			}
			storable(t, err.Error())
			return
		}
		for _, seen := range facts {
			if seen.Object == "" || seen.OccurredAt.IsZero() || seen.Kind == "" || seen.Origin != fact.FromEvent || seen.Rank == fact.RankFetched {
				t.Fatalf("a field is missing without an error: %+v", seen)
			}
			if set := pointers(seen.Data); set != 1 {
				t.Fatalf("%d kinds of data in a fact", set)
			}
			encoded, err := json.Marshal(seen)
			if err != nil {
				t.Fatalf("cannot be an activity's result: %v", err)
			}
			if storable(t, string(encoded)); bytes.Contains(encoded, []byte(`\u0000`)) {
				t.Fatalf("no jsonb: %s", encoded)
			}
			var again fact.Fact
			if err := json.Unmarshal(encoded, &again); err != nil || !reflect.DeepEqual(again, seen) {
				t.Fatalf("read back: %v\n got %+v\nwant %+v", err, again, seen)
			}
		}
	})
}

func pointers(d fact.Data) (set int) {
	for _, field := range reflect.ValueOf(d).Fields() {
		if !field.IsNil() {
			set++
		}
	}
	return set
}

// storable fails the test if Postgres would reject the text.
func storable(t *testing.T, s string) {
	t.Helper()
	if strings.Contains(s, "\x00") || !utf8.ValidString(s) {
		t.Fatalf("%q cannot be stored", s)
	}
}
