package stripe

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// The kinds of lines, as 2023-10-16 tells them apart by type and proration, and basil by parent.
const (
	recurring  = "recurring"
	proration  = "proration"
	attached   = "invoice item of the subscription"
	standalone = "invoice item of no subscription"
)

// sold is a line of an invoice, which document writes in the shape of a version.
type sold struct {
	kind, price string
	amount      int
	start, end  int
	// credited is set for a proration that takes back what an earlier invoice charged.
	credited bool
}

func (s sold) document(version string) document {
	line := document{"object": "line_item", "amount": s.amount, "currency": "usd", "period": document{"start": s.start, "end": s.end}}
	item := s.kind != recurring
	var subscription, credited any = "sub_1", nil
	if s.credited {
		credited = document{"invoice": "in_0", "invoice_line_items": []any{"il_0"}}
	}
	if s.kind == standalone {
		subscription = nil
	}
	if version == before {
		line["price"], line["subscription"] = document{"id": s.price, "object": "price", "product": "prod_of_" + s.price}, subscription
		line["type"], line["proration"], line["proration_details"] = "subscription", s.kind == proration, document{"credited_items": credited}
		if item {
			line["type"], line["invoice_item"] = "invoiceitem", "ii_1"
		}
		return line
	}
	line["subscription"] = nil
	line["pricing"] = document{"type": "price_details", "price_details": document{"price": s.price, "product": "prod_of_" + s.price}}
	details, none := "subscription_item_details", "invoice_item_details"
	if item {
		details, none = none, details
	}
	line["parent"] = document{
		"type": details, none: nil,
		details: document{"proration": s.kind == proration, "proration_details": document{"credited_items": credited}, "subscription": subscription},
	}
	return line
}

func setLines(event document, version string, lines []sold) {
	data := []any{}
	for _, s := range lines {
		data = append(data, s.document(version))
	}
	invoiceOf(event)["lines"].(document)["data"] = data
}

// The same invoice in both shapes must give the same plan and period, whichever order its lines have.
func TestReadPaidInvoice_Lines_SameFactInEveryVersion(t *testing.T) {
	t.Parallel()
	const middle, later, nextYear = periodStart + 86400, periodStart + 15*86400, periodStart + 365*86400
	prices := map[string]string{"price_starter": "starter", "price_pro": "pro", "price_enterprise": "enterprise"}
	for name, tt := range map[string]struct {
		lines      []sold
		plan       string
		start, end int
	}{
		"downgrade from a longer period": {
			[]sold{{proration, "price_enterprise", -9100, middle, nextYear, false}, {recurring, "price_starter", 1000, middle, periodEnd, false}},
			"starter", middle, periodEnd,
		},
		"change of plan, prorations only": {
			[]sold{{proration, "price_starter", -100, middle, periodEnd, false}, {proration, "price_pro", 300, middle, periodEnd, false}},
			"pro", middle, periodEnd,
		},
		"the credit has the later period": {
			[]sold{{proration, "price_enterprise", -9100, middle, nextYear, false}, {proration, "price_starter", 900, middle, periodEnd, false}},
			"starter", middle, periodEnd,
		},
		"renewal beside prorations": {
			[]sold{{proration, "price_starter", 100, middle, nextYear, false}, {recurring, "price_pro", 4900, periodStart, periodEnd, false}},
			"pro", periodStart, periodEnd,
		},
		"an item beside prorations": {
			[]sold{{standalone, "price_setup", 100, middle, middle, false}, {proration, "price_starter", -100, middle, periodEnd, false}, {proration, "price_pro", 300, middle, periodEnd, false}},
			"pro", middle, periodEnd,
		},
		"an item of the subscription beside prorations": {
			[]sold{{attached, "price_setup", 100, middle, middle, false}, {proration, "price_pro", 300, middle, periodEnd, false}},
			"pro", middle, periodEnd,
		},
		"an item that costs what a plan costs": {
			[]sold{{standalone, "price_enterprise", 9900, middle, nextYear, false}, {recurring, "price_pro", 4900, periodStart, periodEnd, false}},
			"pro", periodStart, periodEnd,
		},
		"items only, the subscription's first": {
			[]sold{{standalone, "price_enterprise", 9900, middle, nextYear, false}, {attached, "price_pro", 4900, middle, periodEnd, false}},
			"pro", middle, periodEnd,
		},
		"an item beside what was given back": {
			[]sold{{standalone, "price_pro", 500, periodStart, periodEnd, false}, {proration, "price_enterprise", -9100, middle, nextYear, false}},
			"pro", periodStart, periodEnd,
		},
		"a free month": {
			[]sold{{recurring, "price_pro", 0, periodStart, periodEnd, false}, {proration, "price_starter", -100, middle, nextYear, false}},
			"pro", periodStart, periodEnd,
		},
		"two changes of plan": {
			[]sold{
				{proration, "price_starter", -900, middle, periodEnd, true}, {proration, "price_pro", 4000, middle, periodEnd, false},
				{proration, "price_pro", -2000, later, periodEnd, true}, {proration, "price_enterprise", 9000, later, periodEnd, false},
			},
			"enterprise", later, periodEnd,
		},
		"a change of plan and back": {
			[]sold{
				{proration, "price_starter", -900, middle, periodEnd, true}, {proration, "price_pro", 4000, middle, periodEnd, false},
				{proration, "price_pro", -2000, later, periodEnd, true}, {proration, "price_starter", 500, later, periodEnd, false},
			},
			"starter", later, periodEnd,
		},
		"a plan for a month, beside what is paid for a year": {
			[]sold{{recurring, "price_storage", 12000, periodStart, nextYear, false}, {recurring, "price_pro", 4900, periodStart, periodEnd, false}},
			"pro", periodStart, periodEnd,
		},
		"usage of the month before, beside the plan": {
			[]sold{{recurring, "price_usage", 99, periodStart - 28*86400, periodStart, false}, {recurring, "price_pro", 4900, periodStart, periodEnd, false}},
			"pro", periodStart, periodEnd,
		},
		"a plan from metadata, and two additions": {
			[]sold{{proration, "price_storage", 100, middle, periodEnd, false}, {proration, "price_seat", 100, later, periodEnd, false}},
			"pro", middle, periodEnd,
		},
		"change of plan, beside the usage that it ends": {
			[]sold{
				{proration, "price_starter", -900, later, periodEnd, true}, {proration, "price_enterprise", 4000, later, periodEnd, false},
				{recurring, "price_usage", 99, periodStart, later, false},
			},
			"enterprise", later, periodEnd,
		},
		"change of a plan for a year, beside what is paid by the month": {
			[]sold{
				{proration, "price_starter", -900, middle - 86400*7, nextYear, true}, {proration, "price_enterprise", 4000, middle - 86400*7, nextYear, false},
				{recurring, "price_storage", 99, periodStart, periodEnd, false},
			},
			"enterprise", middle - 86400*7, nextYear,
		},
		"a change in the period before": {
			[]sold{{proration, "price_enterprise", 100, periodStart - 86400, periodStart, false}, {recurring, "price_of_pro", 4900, periodStart, periodEnd, false}},
			"pro", periodStart, periodEnd,
		},
		"more seats": {
			[]sold{{proration, "price_pro", -900, middle, periodEnd, true}, {proration, "price_pro", 4000, middle, periodEnd, false}},
			"pro", middle, periodEnd,
		},
		"change of plan that costs nothing": {
			[]sold{{proration, "price_starter", 0, middle, periodEnd, true}, {proration, "price_pro", 0, middle, periodEnd, false}},
			"pro", middle, periodEnd,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var facts []PaidInvoice
			for _, version := range []string{before, since} {
				for range 2 {
					event := paidEvent(t, version)
					setLines(event, version, tt.lines)
					got, err := ReadPaidInvoice(encode(t, event))
					if err != nil {
						t.Fatal(err)
					}
					bought, err := got.Purchase(prices)
					if bought.Plan != tt.plan || err != nil || bought.Start.Unix() != int64(tt.start) || bought.End.Unix() != int64(tt.end) {
						t.Errorf("%s: plan %q (%v) from %s to %s, want %q from %s to %s", version, bought.Plan, err, bought.Start, bought.End,
							tt.plan, time.Unix(int64(tt.start), 0).UTC(), time.Unix(int64(tt.end), 0).UTC())
					}
					facts = append(facts, got)
					slices.Reverse(tt.lines)
				}
			}
			if !reflect.DeepEqual(facts[0], facts[2]) || !reflect.DeepEqual(facts[1], facts[3]) {
				t.Errorf("the versions differ:\n%+v\n%+v", facts[:2], facts[2:])
			}
		})
	}
}

func TestReadPaidInvoice_SubscriptionOnProrationsOnly(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		event := paidEvent(t, version)
		setLines(event, version, []sold{
			{standalone, "price_setup", 100, periodStart, periodStart, false}, {proration, "price_pro", 300, periodStart, periodEnd, false},
		})
		if version == before {
			invoiceOf(event)["subscription"] = nil
		} else {
			invoiceOf(event)["parent"] = nil
		}
		if got, err := ReadPaidInvoice(encode(t, event)); err != nil || got.Subscription != "sub_1" {
			t.Errorf("subscription %q, %v", got.Subscription, err)
		}
	})
}

// A subscription that is canceled with a proration, or an item that is removed, makes an invoice that is paid
// at once. It names what was left, and metadata may still do so.
func TestPlan_OnlyMoneyBack_Review(t *testing.T) {
	t.Parallel()
	const canceled = periodStart + 15*86400
	for _, lines := range [][]sold{
		{{proration, "price_pro", -2500, canceled, periodEnd, true}},
		{{proration, "price_pro", 0, canceled, periodEnd, true}},
		{{proration, "price_pro", -2500, canceled, periodEnd, true}, {recurring, "price_usage", 99, periodStart, canceled, false}},
		{{proration, "price_pro", -2500, canceled, periodEnd, true}, {recurring, "price_pro", 99, periodStart, canceled, false}, {attached, "price_setup", 99, periodStart, periodStart, false}},
	} {
		eachVersion(t, func(t *testing.T, version string) {
			event := paidEvent(t, version)
			setLines(event, version, lines)
			invoiceOf(event)["amount_paid"] = 0
			got, err := ReadPaidInvoice(encode(t, event))
			if err != nil {
				t.Fatal(err)
			}
			var unsure *PlanError
			if bought, err := got.Purchase(map[string]string{"price_pro": "pro"}); bought.Plan != "" || !errors.As(err, &unsure) || !strings.HasPrefix(unsure.Reason, "nothing_bought: ") {
				t.Errorf("plan %q, %v; want a review", bought.Plan, err)
			}
		})
	}
}

// What an invoice made by hand collects of several subscriptions is nobody's in particular.
func TestReadPaidInvoice_LinesOfTwoSubscriptions_NamedError(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		event := paidEvent(t, version)
		own, other := sold{kind: proration, price: "price_pro", amount: 300, start: periodStart, end: periodEnd}, sold{kind: attached, price: "price_pro", amount: 100, start: periodStart, end: periodEnd}
		data := []any{own.document(version), other.document(version)}
		if version == before {
			data[1].(document)["subscription"] = "sub_2"
		} else {
			data[1].(document)["parent"].(document)["invoice_item_details"].(document)["subscription"] = "sub_2"
		}
		invoiceOf(event)["lines"].(document)["data"] = data
		if got, err := ReadPaidInvoice(encode(t, event)); err != nil || got.Subscription != "sub_1" {
			t.Errorf("subscription %q, %v; the invoice names it", got.Subscription, err)
		}
		invoiceOf(event)["subscription"], invoiceOf(event)["parent"] = nil, nil
		var field *FieldError
		if got, err := ReadPaidInvoice(encode(t, event)); !errors.As(err, &field) || field.Field != "invoice.lines.data[].subscription" || !strings.Contains(field.Reason, "sub_2") {
			t.Errorf("subscription %q, %v; want an error that names both", got.Subscription, err)
		}
	})
}

// The first lines look complete. That they are not is what counts, whatever prices and metadata say.
func TestPlan_PartOfTheLines_Review(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		event := paidEvent(t, version)
		for _, more := range []any{true, false, nil, "true"} {
			invoiceOf(event)["lines"].(document)["has_more"] = more
			got, err := ReadPaidInvoice(encode(t, event))
			if err != nil {
				t.Fatal(err)
			}
			bought, err := got.Purchase(map[string]string{"price_pro": "pro"})
			var unsure *PlanError
			if more != true {
				if bought.Plan != "pro" || err != nil {
					t.Errorf("has_more %v: plan %q, %v; want pro", more, bought.Plan, err)
				}
			} else if bought.Plan != "" || !errors.As(err, &unsure) || !strings.HasPrefix(unsure.Reason, "lines_incomplete: ") {
				t.Errorf("has_more %v: plan %q, %v; want a review", more, bought.Plan, err)
			}
		}
	})
}
