package stripe

import (
	"fmt"
	"time"
)

// PaidInvoice is what an invoice.paid or invoice.payment_succeeded event says, whatever API version
// it was rendered in. The address is not part of it: personal data is read with [ReadCustomerEmail] where
// it is used.
type PaidInvoice struct {
	// ProviderAccount is the connected account, "" for the account's own events.
	ProviderAccount string
	// OccurredAt is the event's created; it has a resolution of one second.
	OccurredAt time.Time
	ID         string
	Customer   string
	// Subscription is "" only where the payload says that the invoice has none.
	Subscription string
	// Metadata is the subscription's, as the invoice carries it.
	Metadata map[string]string
	// Amount is what was paid, in minor units of Currency.
	Amount   int64
	Currency string
	// PeriodStart and PeriodEnd bound what was paid for as far as the lines tell it without their prices.
	PeriodStart time.Time
	PeriodEnd   time.Time
	// Lines are the lines that tell what was bought: see [lines].
	Lines []Line
	// Partial is set where the payload carries the first lines only: the period may then be another
	// one, and [PaidInvoice.Purchase] gives no plan.
	Partial bool
}

// ReadPaidInvoice reads the event. Its error is a [FieldError]: it names the field that is in none
// of its known places, and never leaves a zero value in its stead.
func ReadPaidInvoice(body []byte) (PaidInvoice, error) {
	event, err := parse(body)
	if err != nil {
		return PaidInvoice{}, err
	}
	in := event.object("data", "object")
	if len(in) == 0 {
		return PaidInvoice{}, &FieldError{"data.object", "absent; a thin event carries no object"}
	}
	paid := PaidInvoice{
		ProviderAccount: event.text("account"),
		ID:              in.text("id"),
		Customer:        in.ref("customer"),
		Metadata:        metadata(in),
		Currency:        in.text("currency"),
		Partial:         string(in.object("lines")["has_more"]) == "true",
	}
	if err := paid.require(in); err != nil {
		return PaidInvoice{}, err
	}
	if paid.OccurredAt, err = event.unix("created"); err != nil {
		return PaidInvoice{}, &FieldError{"created", err.Error()}
	}
	if paid.Subscription, err = subscription(in); err != nil {
		return PaidInvoice{}, err
	}
	if err := paid.storable(); err != nil {
		return PaidInvoice{}, err
	}
	if paid.Amount, err = in.integer("amount_paid"); err != nil {
		return PaidInvoice{}, &FieldError{"invoice.amount_paid", err.Error()}
	}
	if paid.Amount < 0 {
		return PaidInvoice{}, &FieldError{"invoice.amount_paid", fmt.Sprintf("%d is no payment", paid.Amount)}
	}
	if paid.Lines, err = lines(in); err != nil {
		return PaidInvoice{}, err
	}
	if paid.PeriodStart, paid.PeriodEnd, err = period(in, paid.Lines); err != nil {
		return PaidInvoice{}, err
	}
	return paid, nil
}

// ReadCustomerEmail reads the address on an invoice and nothing else; "" where it has none.
func ReadCustomerEmail(body []byte) (string, error) {
	event, err := parse(body)
	if err != nil {
		return "", err
	}
	return event.object("data", "object").text("customer_email"), nil
}

// require checks what every version has in the same place.
func (p PaidInvoice) require(in object) error {
	switch {
	case p.ID == "":
		return &FieldError{"invoice.id", "absent"}
	case p.Customer == "":
		return &FieldError{"invoice.customer", "absent"}
	case p.Currency == "":
		return &FieldError{"invoice.currency", "absent"}
	case len(p.Currency) != 3:
		return &FieldError{"invoice.currency", fmt.Sprintf("%q is no ISO 4217 code", p.Currency)}
	case in.has("status") && in.text("status") != "paid":
		// "paid" is gone since 2025-03-31.basil; status says it in every version.
		return &FieldError{"invoice.status", fmt.Sprintf("is %q in an event that says paid", in.text("status"))}
	}
	return nil
}

// storable checks the texts that are stored as they are. The metadata is checked where it is used.
func (p PaidInvoice) storable() error {
	for _, f := range []struct{ name, value string }{
		{"account", p.ProviderAccount}, {"invoice.id", p.ID}, {"invoice.customer", p.Customer},
		{"invoice.subscription", p.Subscription}, {"invoice.currency", p.Currency},
	} {
		if why := Unusable(f.value, mostText); why != "" {
			return &FieldError{f.name, why}
		}
	}
	return nil
}

// subscription finds the invoice's subscription: invoice.subscription up to 2025-02, then
// invoice.parent.subscription_details.subscription, and on lines in both. "" means that the payload
// says there is none: subscription or parent is null, or the parent is a quote. Its error is a [FieldError].
func subscription(in object) (string, error) {
	parent := in.object("parent")
	if id := in.ref("subscription"); id != "" {
		return id, nil
	}
	if id := parent.object("subscription_details").ref("subscription"); id != "" {
		return id, nil
	}
	if id, err := subscriptionOfLines(in); id != "" || err != nil {
		return id, err
	}
	switch {
	case !in.null("subscription"):
		return "", &FieldError{"invoice.subscription", "neither an ID nor an object that has one"}
	case !in.null("parent") && parent.text("type") != "quote_details":
		return "", &FieldError{"invoice.parent", fmt.Sprintf("of type %.40q, which tells no subscription", parent.text("type"))}
	case in.has("subscription") || in.has("parent"):
		return "", nil
	}
	return "", &FieldError{"invoice.subscription", "neither invoice.subscription nor invoice.parent.subscription_details.subscription is there"}
}

// subscriptionOfLines finds the one subscription that the lines name, "" for none. An invoice that is made by
// hand collects what is pending of all of a customer's subscriptions, and there is no telling whose it is.
func subscriptionOfLines(in object) (found string, err error) {
	for _, l := range in.list("lines") {
		switch id := lineSubscription(l); {
		case id == "" || id == found:
		case found == "":
			found = id
		default:
			return "", &FieldError{"invoice.lines.data[].subscription", fmt.Sprintf("%.40q and %.40q, and the invoice itself names none", found, id)}
		}
	}
	return found, nil
}

// metadata returns the subscription's metadata as the invoice carries it.
func metadata(in object) map[string]string {
	for _, place := range []object{
		in.object("parent", "subscription_details"),
		in.object("subscription_details"),
		in.object("parent", "subscription_details", "subscription"),
		in.object("subscription"),
	} {
		if found := place.strings("metadata"); len(found) > 0 {
			return found
		}
	}
	return nil
}

// period returns what was paid for. It stands on the lines: invoice.period_start and period_end are
// the period before on a renewal, and serve only where the lines have none.
func period(in object, lines []Line) (start, end time.Time, err error) {
	if start, end = span(lines); start.IsZero() {
		if start, end, err = in.span("invoice.", "period_start", "period_end"); err != nil {
			return start, end, err
		}
	}
	if start.IsZero() || end.IsZero() {
		return start, end, &FieldError{"invoice.lines.data[].period", "no line, and no invoice.period_start and period_end, tell what was paid for"}
	}
	return start, end, nil
}

// span returns the latest period of the lines of the lowest rank. Where several lines have it, it begins with
// the first of them, in whichever order they stand.
func span(lines []Line) (start, end time.Time) {
	for _, l := range lines {
		switch {
		case l.rank != lowest(lines):
		case l.End.After(end), l.End.Equal(end) && l.Start.Before(start):
			start, end = l.Start, l.End
		}
	}
	return start, end
}
