// Package operator holds what an operator can ask and do, apart from what it is asked with. Today that is
// the command line.
package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// UnknownError means that no receipt has the ID, under any of its names.
type UnknownError struct{ ID string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no event %q: it is no event ID, receipt ID or workflow ID that pawl holds", e.ID)
}

// AmbiguousError means that several receipts have the ID: providers, accounts and modes number
// their events apart.
type AmbiguousError struct {
	ID       string
	Receipts []timeline.Receipt
}

func (e *AmbiguousError) Error() string {
	list := make([]string, len(e.Receipts))
	for i, r := range e.Receipts {
		account := r.Account
		if account != "" {
			account = " " + account
		}
		list[i] = fmt.Sprintf("%s (%s%s, %s, %s)", r.ID, r.Provider, account, r.Mode, r.Type)
	}
	return fmt.Sprintf("%q names %d events; use the receipt ID of one: %s", e.ID, len(list), strings.Join(list, ", "))
}

// ListEvents returns the receipts that pass f, the newest first.
func ListEvents(ctx context.Context, db timeline.DB, f timeline.Filter) ([]timeline.Receipt, error) {
	return timeline.List(ctx, db, f)
}

// ShowEvent returns everything about the event that id names: an event ID, a receipt ID or a
// workflow ID. The error is an [*UnknownError] or an [*AmbiguousError] when id does not name one.
func ShowEvent(ctx context.Context, db timeline.DB, id string) (*timeline.Event, error) {
	r, err := FindEvent(ctx, db, id)
	if err != nil {
		return nil, err
	}
	return timeline.Show(ctx, db, r.ID)
}

// FindEvent returns the one receipt that id names, with the errors of [ShowEvent].
func FindEvent(ctx context.Context, db timeline.DB, id string) (*timeline.Receipt, error) {
	receipts, err := timeline.Find(ctx, db, id)
	if err != nil {
		return nil, err
	}
	if len(receipts) == 0 {
		if receipts, err = findUnstarted(ctx, db, id); err != nil {
			return nil, err
		}
	}
	switch len(receipts) {
	case 0:
		return nil, &UnknownError{ID: id}
	case 1:
		return &receipts[0], nil
	}
	return nil, &AmbiguousError{ID: id, Receipts: receipts}
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
			in := workflows.EventInput{Provider: r.Provider, Account: r.Account, Mode: r.Mode, EventID: r.EventID}
			if in.ID() == id {
				found = append(found, r)
			}
		}
	}
	return found, nil
}
