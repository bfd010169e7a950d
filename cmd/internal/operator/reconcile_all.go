package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
)

// Asked is a source that can be asked for what the provider holds. Its requests are those of background work.
type Asked struct {
	API *stripe.Client
	// Mode is the source's, "" for both.
	Mode string
	// Gaps finds what was sent to the source and never came.
	Gaps *Gaps
	// Endpoint compares the source with its endpoint at the provider.
	Endpoint *EndpointWatch
}

// behindPatience is how background work asks: its item, or its schedule, is tried again later anyway.
var behindPatience = stripe.Patience{Tries: 4, First: time.Second}

// knowing lists the sources that may know accounts of a mode; only narrows them to one.
func knowing(all map[string]Asked, mode, only string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if of := all[name].Mode; (of == "" || of == mode) && (only == "" || only == name) {
			names = append(names, name)
		}
	}
	return names
}

// reconcile compares the account of a job's item, and brings it to what the provider says. Its word begins with "same",
// "mended" or "asks": the last one is for a person to look at. Several sources of a mode are accounts of the provider's
// of their own: the first that shows a customer of the account is taken.
func (w *JobWorker) reconcile(ctx context.Context, d Decision, only string) (says string, err error) {
	o := w.Operator
	mode, id, _ := strings.Cut(d.Target, "/")
	names := knowing(o.Asked, mode, only)
	if len(names) == 0 {
		return "", fmt.Errorf("no source of mode %s has an api_key", mode)
	}
	var found *Reconciliation
	for _, name := range names {
		compared := &Reconciler{DB: o.DB, API: o.Asked[name].API.With(behindPatience), Source: name,
			Policy: o.Policy, Request: d.Request}
		if found, err = compared.Compare(ctx, id, mode); err != nil {
			return "", err
		}
		if len(found.Customers) > 0 {
			break
		}
	}
	said, err := w.mend(ctx, d, found)
	if err != nil {
		return "", err
	}
	return said, account.Compared(ctx, o.DB, account.Name{Mode: mode, ID: id})
}

// mend files what was found to differ. An earlier try of the same item may have done that.
func (w *JobWorker) mend(ctx context.Context, d Decision, found *Reconciliation) (says string, err error) {
	known, err := w.Operator.Audit.Recorded(ctx, "reconcile/"+d.requestID())
	if err != nil {
		return "", err
	}
	if len(found.Differences) > 0 {
		d.Found = found
		if _, err := w.Operator.Decide(ctx, d); err != nil {
			return "", err
		}
	}
	var asks []string // about the objects that could not be compared
	for _, id := range slices.Sorted(maps.Keys(found.LeftOut)) {
		if !strings.Contains(id, " ") { // a list that was not read to its end asks nobody
			asks = append(asks, id+": "+found.LeftOut[id])
		}
	}
	for _, d := range found.Cash {
		if len(found.Differences) == 0 { // a run may book it now
			asks = append(asks, d.String())
		}
	}
	switch {
	case len(asks) > 0:
		says = "asks: " + strings.Join(asks, "; ")
	case len(found.Differences) > 0:
		says = fmt.Sprintf("mended: %d fields of %d objects", len(found.Differences), len(found.Filed))
	case known != nil:
		says = "mended: before the worker was stopped"
	default:
		says = fmt.Sprintf("same: %d objects", found.Compared)
	}
	return says, nil
}

// ReconcileAll is a job that compares the accounts that u asks for, of the sources' modes. source narrows them to one
// source, "" for all.
func (o *Operator) ReconcileAll(ctx context.Context, u account.Uncompared, source string) (*NewJob, error) {
	for _, mode := range []string{"live", "test"} {
		if len(knowing(o.Asked, mode, source)) > 0 {
			u.Modes = append(u.Modes, mode)
		}
	}
	if len(u.Modes) == 0 {
		return nil, errors.New("no source has an api_key: give one of provider stripe a restricted key that may read, as api_key: env:NAME")
	}
	names, err := account.ToCompare(ctx, o.DB, u)
	if err != nil {
		return nil, err
	}
	j := &NewJob{Job: job.Job{Action: job.Reconcile, Filter: map[string]string{"all": "true"}}}
	if source != "" {
		j.Filter["source"] = source
	}
	for _, name := range names {
		j.Others = append(j.Others, accountItem(name.Mode, name.ID))
	}
	return j, nil
}
