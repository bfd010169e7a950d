package stripe

import (
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/billing"
)

// ReaderVersion is raised by a change that has the reader find other facts in the same body. Each fact says which
// version has read it; see docs/operations.md, "A version read something wrongly".
const ReaderVersion = 1

// Read returns the facts that an event's body tells; none, without an error, where the event is about nothing that we
// keep facts of. The subject comes with what the receipt knows: provider, mode, event, receipt and the connected
// account, to which Read adds the time and the customer.
//
// Every error is a [ReviewError].
func Read(body []byte, s billing.Subject) ([]billing.Fact, error) {
	event, err := parse(body)
	if err != nil {
		return nil, err
	}
	if event.text("object") == "v2.core.event" {
		return nil, review(Thin, "data.object", "absent; a thin event carries no object, and its source has no "+
			"api_key to ask for it")
	}
	if s.EventType == "invoice.upcoming" {
		return nil, nil // of an invoice that is not there yet, and has no ID
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
	r := reader{subject: s, origin: billing.FromEvent, previous: data.object("previous_attributes"),
		version: event.text("api_version")}
	if IsReconciled(s.EventType) {
		r.origin = billing.FromFetch
	}
	return r.facts(o)
}

// ReadObject returns the facts that an object tells which was fetched, or imported: as it was at the subject's time; or
// those of each object of a list. It is like [Read] otherwise.
func ReadObject(body []byte, s billing.Subject, origin billing.Origin) ([]billing.Fact, error) {
	o, err := parse(body)
	if err != nil {
		return nil, err
	}
	r := reader{subject: s, origin: origin}
	if o.text("object") != "list" {
		return r.facts(o)
	}
	list := fieldsOf(o, "list.")
	var facts []billing.Fact
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
	subject  billing.Subject
	origin   billing.Origin
	previous object
	// version is the API version of the event, "" for none. Versions order by their date.
	version string
	// more are facts about other objects that the object carries.
	more []billing.Fact
}

// own reports whether the object is of our own account. What a connected account writes into its metadata, or makes
// its lookup keys, says nothing about our accounts and plans: it could name any.
func (r *reader) own() bool { return r.subject.ProviderAccount == "" }

// facts dispatches on what the object says it is, which is the same in every version and for every way to it.
func (r *reader) facts(o object) ([]billing.Fact, error) {
	if o.text("object") == "" {
		return nil, review(Unreadable, "data.object.object", "absent; every object says what it is")
	}
	read, ok := map[string]func(*reader, *fields) *billing.Fact{
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
	fact := read(r, f)
	if *f.err != nil || fact == nil {
		return nil, *f.err
	}
	return slices.Concat([]billing.Fact{*fact}, r.more, billing.LinksOf(*fact)), nil
}

// fact returns the fact about the object without its data. An object that has ended has the rank of an end, whatever
// the event is called: within its second, nothing comes after it.
func (r *reader) fact(f *fields, kind billing.Kind, ended bool) *billing.Fact {
	fact := &billing.Fact{Subject: r.subject, Kind: kind, Origin: r.origin, Rank: billing.RankFetched,
		Reader: ReaderVersion}
	fact.Object = f.needed("id", f.word("id"))
	// An account of the Accounts v2 API stands in the customer's place.
	if fact.Customer = f.link("customer"); fact.Customer == "" {
		fact.Customer = f.link("customer_account")
	}
	if r.origin == billing.FromEvent {
		fact.Rank = rank(r.subject.EventType, ended)
	}
	return fact
}

// notices are the events that tell of something to come, and come with an object that has not changed.
var notices = map[string]bool{
	"customer.subscription.trial_will_end":         true,
	"customer.subscription.pending_update_applied": true,
	"customer.subscription.pending_update_expired": true,
	"invoice.sent":        true,
	"invoice.overdue":     true,
	"invoice.will_be_due": true,
}

func rank(eventType string, ended bool) billing.Rank {
	switch {
	case ended:
		return billing.RankEnd
	case notices[eventType]:
		return billing.RankNotice
	case strings.HasSuffix(eventType, ".created"):
		return billing.RankCreated
	}
	return billing.RankChange
}

// metadataAccount returns the account of ours that metadata names, "" for none and for a connected account's.
func (r *reader) metadataAccount(f *fields, field string, metadata object) string {
	if !r.own() {
		return ""
	}
	return f.account(field+".account", metadata.text("account"))
}
