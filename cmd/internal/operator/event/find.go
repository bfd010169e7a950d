package event

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Filter filters a list. An event must match all fields that are set.
type Filter struct {
	timeline.Filter
	// Object is the ID of a provider's object, an invoice number, or another name that [account.Quoted] accepts.
	// Account is an account ID as in [accounts.Show]. Outage is the ID of an outage. Empty means no filter.
	Object, Account, Outage string
}

// Criteria lists the names of the filters that a job about many events accepts. The command-line flags have the same
// names, with hyphens.
var Criteria = []string{"status", "reason_code", "mode", "source", "type", "account", "object", "outage", "since",
	"until"}

// JobFilter returns the filter for the criteria of a job. The values of since and until are times of RFC 3339, because
// a duration before now would select other events when the job is confirmed.
func JobFilter(criteria map[string]string) (Filter, error) {
	f := FilterOf(criteria)
	for name, at := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		text := criteria[name]
		if text == "" {
			continue
		}
		var err error
		if *at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return f, decide.Invalidf("%s: %.40q is not a time: write it as 2026-11-22T08:00:00Z", name, text)
		}
	}
	return f, nil
}

// FilterOf returns the filter for criteria by name, without since and until.
func FilterOf(criteria map[string]string) Filter {
	return Filter{Object: criteria["object"], Account: criteria["account"], Outage: criteria["outage"],
		Filter: timeline.Filter{
			Status: criteria["status"], ReasonCode: criteria["reason_code"], Source: criteria["source"],
			Type: criteria["type"], Mode: criteria["mode"]}}
}

// List returns the receipts that match f, newest first. It returns an error if the account is unknown.
func List(ctx context.Context, db timeline.DB, f Filter) ([]timeline.Receipt, error) {
	if err := f.resolve(ctx, db); err != nil {
		return nil, err
	}
	return timeline.List(ctx, db, f.Filter)
}

// resolve parses f.Outage. It sets f.About to the names of f.Object, and f.Accounts to the accounts that f.Account
// names, with their objects.
func (f *Filter) resolve(ctx context.Context, db timeline.DB) (err error) {
	if f.Outage != "" {
		if f.Filter.Outage, err = strconv.ParseInt(f.Outage, 10, 64); err != nil || f.Filter.Outage < 1 {
			return decide.Invalidf("outage: %.40q is not an outage: write its number from pawl outages list", f.Outage)
		}
	}
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
	ofFlow, err := timeline.HasAccount(ctx, db, f.Account)
	if err != nil {
		return err
	}
	if len(names) == 0 && !ofFlow {
		return decide.Unknownf("%s", accounts.NotFound(f.Account, ""))
	}
	f.Accounts, f.Objects = nil, nil
	if ofFlow {
		f.Accounts = []string{f.Account}
	}
	for _, name := range names {
		of, err := billing.ObjectsOf(ctx, db, name.Mode, name.ID)
		if err != nil {
			return err
		}
		if !slices.Contains(f.Accounts, name.ID) {
			f.Accounts = append(f.Accounts, name.ID)
		}
		f.Objects = append(f.Objects, of...)
	}
	return nil
}

// objectsOf returns id and the objects that [account.Quoted] finds for it.
func objectsOf(ctx context.Context, db timeline.DB, id string) ([]string, error) {
	meant, err := account.Quoted(ctx, db, id)
	return append(meant, id), err
}

// mostAbout limits the events that are read per object.
const mostAbout = 50

// Show returns the details of the event that id names. The error comes from [Find].
func Show(ctx context.Context, db timeline.DB, id string) (*timeline.Event, error) {
	r, err := Find(ctx, db, id)
	if err != nil {
		return nil, err
	}
	return timeline.Show(ctx, db, r.ID)
}

// Find returns the receipt with the event ID, receipt ID, workflow ID or effect key. It also accepts the ID or
// another name of an object, or a connected account, if only one event is about it. The error is a [*decide.Fault] of
// kind [decide.Unknown] or [decide.Ambiguous].
func Find(ctx context.Context, db timeline.DB, id string) (*timeline.Receipt, error) {
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
		if err == nil && len(receipts) == 0 {
			receipts, err = timeline.OfConnected(ctx, db, id, mostAbout)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(receipts) == 0:
		return nil, decide.Unknownf("no event %q: no stored event has this event ID, receipt ID, workflow ID, effect key, object ID, invoice number, e-mail address or connected account", id)
	case len(receipts) == 1:
		return &receipts[0], nil
	}
	return nil, several(id, receipts, object)
}

// findUnstarted finds a receipt by the ID of a workflow that has not started. No table contains such an ID,
// provider:[account:]event, so findUnstarted parses it.
func findUnstarted(ctx context.Context, db timeline.DB, id string) ([]timeline.Receipt, error) {
	var found []timeline.Receipt
	rest := id
	for range 2 { // the event ID follows the provider, or the provider and the account
		var ok bool
		if _, rest, ok = strings.Cut(rest, ":"); !ok {
			break
		}
		receipts, err := timeline.Find(ctx, db, rest)
		if err != nil {
			return nil, err
		}
		for _, r := range receipts {
			if decide.InputOf(&r).ID() == id {
				found = append(found, r)
			}
		}
	}
	return found, nil
}

// several returns the fault for an ID that matches several receipts. Event IDs are unique only per provider, account
// and mode, and an object can have several events.
func several(id string, receipts []timeline.Receipt, object bool) error {
	list := make([]string, len(receipts))
	for i, r := range receipts {
		list[i] = fmt.Sprintf("%s (%s, %s)", r.EventID, r.Type, r.Status)
		if !object {
			list[i] = fmt.Sprintf("%s (%s, %s, %s)", r.ID, strings.TrimSpace(r.Provider+" "+r.Account), r.Mode, r.Type)
		}
	}
	says := fmt.Sprintf("%q matches %d events; use the receipt ID of one: ", id, len(list))
	if object {
		says = fmt.Sprintf("%d events contain %s: use the ID of one: ", len(list), id)
	}
	return &decide.Fault{Kind: decide.Ambiguous, Message: says + strings.Join(list, ", "), ID: id, Receipts: receipts,
		Object: object}
}
