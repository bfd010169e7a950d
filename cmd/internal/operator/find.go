package operator

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Events filters a list. An event must match all fields that are set.
type Events struct {
	timeline.Filter
	// Object is the ID of a provider's object, or another name that [account.Quoted] accepts. Account is an account ID
	// as in [ShowAccount]. Empty means no filter.
	Object, Account string
}

// Criteria lists the names that [EventsOf] accepts. The command-line flags have the same names.
var Criteria = []string{"status", "reason", "source", "type", "account", "object"}

// EventsOf returns the filter for criteria by name.
func EventsOf(criteria map[string]string) Events {
	return Events{Object: criteria["object"], Account: criteria["account"], Filter: timeline.Filter{
		Status: criteria["status"], ReasonCode: criteria["reason"], Source: criteria["source"], Type: criteria["type"]}}
}

// ListEvents returns the receipts that match f, newest first. It returns an error if the account is unknown.
func ListEvents(ctx context.Context, db timeline.DB, f Events) ([]timeline.Receipt, error) {
	if err := f.resolve(ctx, db); err != nil {
		return nil, err
	}
	return timeline.List(ctx, db, f.Filter)
}

// resolve sets f.About to the objects that match f.Object and f.Account.
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
		of, err := billing.ObjectsOf(ctx, db, name.Mode, name.ID)
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

// objectsOf returns id and the objects that [account.Quoted] finds for it.
func objectsOf(ctx context.Context, db timeline.DB, id string) ([]string, error) {
	meant, err := account.Quoted(ctx, db, id)
	return append(meant, id), err
}

// mostAbout limits the events that are read per object.
const mostAbout = 50

// ShowEvent returns the details of the event that id names. The error comes from [FindEvent].
func ShowEvent(ctx context.Context, db timeline.DB, id string) (*timeline.Event, error) {
	r, err := FindEvent(ctx, db, id)
	if err != nil {
		return nil, err
	}
	return timeline.Show(ctx, db, r.ID)
}

// FindEvent returns the receipt with the event ID, receipt ID, workflow ID or effect key. It also accepts the ID of an
// object, or another name of it, if only one event is about the object. The error is a [*Fault] of kind [Unknown] or
// [Ambiguous].
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

// findUnstarted finds a receipt by the ID of a workflow that has not started. No table contains that ID,
// provider:[account:]event, so it is taken apart.
func findUnstarted(ctx context.Context, db timeline.DB, id string) ([]timeline.Receipt, error) {
	var found []timeline.Receipt
	rest := id
	for range 2 { // the event ID follows the provider, or provider and account
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
