package stripe

import (
	"errors"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/receipt"
)

// ReaderVersion is the version of the parsers. Increase it with a change that produces other facts from the same body.
// Each fact stores the version that parsed it; see docs/operations/parser-fault.md.
const ReaderVersion = 1

// Read returns the facts of an event. It returns nil without an error if pawl stores no facts about the event's object.
// The subject contains the data of the receipt: provider, mode, event, receipt and connected account. Read adds the
// time and the customer.
//
// Every error is a [ReviewError].
func Read(body []byte, s fact.Subject) ([]fact.Fact, error) {
	event, err := parse(body)
	if err != nil {
		return nil, err
	}
	if event.text("object") == "v2.core.event" {
		return nil, review(Thin, "data.object", "absent; a thin event contains no object, and its source has no "+
			"api_key to fetch it")
	}
	if s.EventType == "invoice.upcoming" {
		return nil, nil // the invoice does not exist yet and has no ID
	}
	data := event.object("data")
	o := data.object("object")
	if len(o) == 0 {
		return nil, review(Unreadable, "data.object", "absent")
	}
	created := fieldsOf(event, "")
	if s.OccurredAt = created.time("created"); s.OccurredAt.IsZero() {
		created.fail("created", "absent")
	}
	if err := *created.err; err != nil {
		return nil, err
	}
	r := reader{subject: s, origin: fact.FromEvent, previous: data.object("previous_attributes"),
		version: event.text("api_version")}
	if IsReconciled(s.EventType) {
		r.origin = fact.FromFetch
	}
	facts, err := r.facts(o)
	if of, unread := errors.AsType[*ReviewError](err); unread && of.Code == Unreadable && r.version != "" &&
		!Tested(r.version) {
		of.Reason += "; the parser was not tested with the API version of the event"
	}
	return facts, err
}

// ReadObject returns the facts of a fetched or imported object, or of each object in a list, as of the subject's
// time. Otherwise it is like [Read].
func ReadObject(body []byte, s fact.Subject, origin fact.Origin) ([]fact.Fact, error) {
	o, err := parse(body)
	if err != nil {
		return nil, err
	}
	r := reader{subject: s, origin: origin}
	if o.text("object") != "list" {
		return r.facts(o)
	}
	list := fieldsOf(o, "list.")
	var facts []fact.Fact
	for _, each := range list.elements("data") {
		found, err := r.facts(each.object)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if f.Refund != nil {
				f = made(f)
			}
			facts = append(facts, f)
		}
	}
	return facts, *list.err
}

type reader struct {
	subject  fact.Subject
	origin   fact.Origin
	previous object
	// version is the API version of the event, or "". Versions are ordered by date.
	version string
	// more holds facts about other objects that the object contains.
	more []fact.Fact
}

// own reports whether the object belongs to the adopting company's own Stripe account. Metadata and lookup keys of a
// connected account must not select accounts or plans, because that account could write any value.
func (r *reader) own() bool { return r.subject.ProviderAccount == "" }

// facts selects the parser by the object's type, which is the same in every version and for events and fetched
// objects.
func (r *reader) facts(o object) ([]fact.Fact, error) {
	if o.text("object") == "" {
		return nil, review(Unreadable, "data.object.object", "absent; every object has a type")
	}
	read, ok := map[string]func(*reader, *fields) *fact.Fact{
		"subscription":              (*reader).subscription,
		"invoice":                   (*reader).invoice,
		"charge":                    (*reader).charge,
		"payment_intent":            (*reader).paymentIntent,
		"invoice_payment":           (*reader).invoicePayment,
		"checkout.session":          (*reader).checkout,
		"refund":                    (*reader).refund,
		"dispute":                   (*reader).dispute,
		"credit_note":               (*reader).creditNote,
		"radar.early_fraud_warning": (*reader).warning,
		"customer":                  (*reader).customer,
	}[o.text("object")]
	if !ok {
		return nil, nil
	}
	f := fieldsOf(o, o.text("object")+".")
	r.more = nil
	seen := read(r, f)
	if *f.err != nil || seen == nil {
		return nil, *f.err
	}
	return slices.Concat([]fact.Fact{*seen}, r.more, fact.LinksOf(*seen)), nil
}

// fact returns a fact about the object, without the data of the object. If ended is set, the fact sorts after all other
// facts of the same second, regardless of the type of the event.
func (r *reader) fact(f *fields, kind fact.Kind, ended bool) *fact.Fact {
	seen := &fact.Fact{Subject: r.subject, Kind: kind, Origin: r.origin, Rank: fact.RankFetched,
		Reader: ReaderVersion}
	seen.Object = f.needed("id", f.link("id"))
	// An account of the Accounts v2 API replaces the customer.
	if seen.Customer = f.link("customer"); seen.Customer == "" {
		seen.Customer = f.link("customer_account")
	}
	if r.origin == fact.FromEvent {
		seen.Rank = rank(r.subject.EventType, ended)
	}
	return seen
}

// notices are the event types that announce a future change. Such an event contains the unchanged object.
var notices = map[string]bool{
	"customer.subscription.trial_will_end":         true,
	"customer.subscription.pending_update_expired": true,
	"invoice.sent":        true,
	"invoice.overdue":     true,
	"invoice.will_be_due": true,
}

func rank(eventType string, ended bool) fact.Rank {
	switch {
	case ended:
		return fact.RankEnd
	case notices[eventType]:
		return fact.RankNotice
	case strings.HasSuffix(eventType, ".created"):
		return fact.RankCreated
	}
	return fact.RankChange
}

// metadataAccount returns the account in metadata, or "". It ignores the metadata of connected accounts.
func (r *reader) metadataAccount(f *fields, field string, metadata object) string {
	if !r.own() {
		return ""
	}
	return f.account(field+".account", metadata.text("account"))
}

// Paid returns the paid amount that an event reports. It returns nil if the event reports no payment or cannot be read.
func Paid(body []byte, s fact.Subject) *receipt.Paid {
	facts, err := Read(body, s)
	if err != nil || len(facts) == 0 {
		return nil
	}
	f, amount := facts[0], int64(0)
	switch {
	case f.Invoice != nil && f.Invoice.Status == "paid":
		amount = f.Invoice.Paid
	case f.Payment != nil && f.Payment.Status == "succeeded":
		amount = f.Payment.Amount
	case f.Checkout != nil && f.Checkout.PaymentStatus == "paid":
		amount = f.Checkout.Amount
	}
	if amount <= 0 {
		return nil
	}
	return &receipt.Paid{Object: f.Object, Amount: amount, Currency: f.Currency()}
}
