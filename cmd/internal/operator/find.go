package operator

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Events is what a list is narrowed by: all that is set must hold.
type Events struct {
	timeline.Filter
	// Object is a provider's object, such as an invoice, a subscription or a customer, or what a customer quotes: see
	// [account.Quoted]; Account
	// names an account of ours as [ShowAccount] takes it. "" for none.
	Object, Account string
}

// Criteria are the names of the criteria that [EventsOf] takes. The command line's flags have the same names.
var Criteria = []string{"status", "reason", "source", "type", "account", "object"}

// EventsOf makes a filter of criteria by their names.
func EventsOf(criteria map[string]string) Events {
	return Events{Object: criteria["object"], Account: criteria["account"], Filter: timeline.Filter{
		Status: criteria["status"], ReasonCode: criteria["reason"], Source: criteria["source"], Type: criteria["type"]}}
}

// ListEvents returns the receipts that pass f, the newest first. An account that is not known is an error.
func ListEvents(ctx context.Context, db timeline.DB, f Events) ([]timeline.Receipt, error) {
	if err := f.resolve(ctx, db); err != nil {
		return nil, err
	}
	return timeline.List(ctx, db, f.Filter)
}

// resolve finds the provider's objects that f means by its object and account.
func (f *Events) resolve(ctx context.Context, db timeline.DB) (err error) {
	if f.Object != "" {
		if f.About, err = objectsOf(ctx, db, f.Object); err != nil {
			return err
		}
	}
	if f.Account == "" {
		return nil
	}
	names, err := account.Find(ctx, db, f.Account, "")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return unknown("%s", noAccount(f.Account, ""))
	}
	objects := []string{}
	for _, name := range names {
		of, err := billing.Scope{Mode: name.Mode, Account: name.ID}.Objects(ctx, db)
		if err != nil {
			return err
		}
		objects = append(objects, of...)
	}
	if f.Object != "" {
		objects = slices.DeleteFunc(f.About, func(o string) bool { return !slices.Contains(objects, o) })
	}
	f.About = objects
	return nil
}

// objectsOf returns the objects that id names: itself, and what a customer means by it; see [account.Quoted].
func objectsOf(ctx context.Context, db timeline.DB, id string) ([]string, error) {
	meant, err := account.Quoted(ctx, db, id)
	return append(meant, id), err
}

// mostAbout is how many of an object's events are shown, the newest.
const mostAbout = 50

// ShowEvent returns everything about the event that id names, with the errors of [FindEvent].
func ShowEvent(ctx context.Context, db timeline.DB, id string) (*timeline.Event, error) {
	r, err := FindEvent(ctx, db, id)
	if err != nil {
		return nil, err
	}
	return timeline.Show(ctx, db, r.ID)
}

// FindEvent returns the one receipt that id names: an event ID, a receipt ID, a workflow ID, the key of an effect that
// it claimed, or an object of the provider's (or an invoice's number) that no other event is about. The error is a
// [*Fault] when id does not name one: [Unknown] or [Ambiguous].
func FindEvent(ctx context.Context, db timeline.DB, id string) (*timeline.Receipt, error) {
	receipts, err := timeline.Find(ctx, db, id)
	if err == nil && len(receipts) == 0 {
		receipts, err = findUnstarted(ctx, db, id)
	}
	object := err == nil && len(receipts) == 0 && id != ""
	if object {
		var about []string
		if about, err = objectsOf(ctx, db, id); err == nil {
			receipts, err = timeline.List(ctx, db, timeline.Filter{About: about, Limit: mostAbout})
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(receipts) == 0:
		return nil, unknown("no event %q: it is no event ID, receipt ID, workflow ID, effect key, object ID, invoice number or e-mail address that pawl holds", id)
	case len(receipts) == 1:
		return &receipts[0], nil
	}
	return nil, several(id, receipts, object)
}

// findUnstarted finds the receipt of a workflow that was not started yet: its ID,
// provider:[account:]event, stands in no table.
func findUnstarted(ctx context.Context, db timeline.DB, id string) ([]timeline.Receipt, error) {
	var found []timeline.Receipt
	rest := id
	for range 2 { // the event ID stands after the provider, or after provider and account
		var ok bool
		if _, rest, ok = strings.Cut(rest, ":"); !ok {
			break
		}
		receipts, err := timeline.Find(ctx, db, rest)
		if err != nil {
			return nil, err
		}
		for _, r := range receipts {
			if inputOf(&r).ID() == id {
				found = append(found, r)
			}
		}
	}
	return found, nil
}
