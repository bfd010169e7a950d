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

// Asked is a source with an API key. The requests of background work use it.
type Asked struct {
	API *stripe.Client
	// Mode is the mode of the source. Empty means both modes.
	Mode string
	// Gaps finds the events that were sent to the source and never received.
	Gaps *Gaps
	// Endpoint compares the source with its webhook endpoint.
	Endpoint *EndpointWatch
}

// behindPatience limits the retries of background requests, because the item or the schedule is tried again later.
var behindPatience = stripe.Patience{Tries: 4, First: time.Second}

// knowing lists the sources that can have accounts of the mode. If only is set, the other sources are ignored.
func knowing(all map[string]Asked, mode, only string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if of := all[name].Mode; (of == "" || of == mode) && (only == "" || only == name) {
			names = append(names, name)
		}
	}
	return names
}

// reconcile compares the account of a job's item and files the differences. The result starts with "same", "mended", or
// "asks" if a person has to look at it. Several sources of a mode have different accounts at the provider. The first
// source that has a customer of the account is used.
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

// mend files the differences. An earlier attempt of the same item may have filed them already.
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
	var asks []string // the objects that could not be compared
	for _, id := range slices.Sorted(maps.Keys(found.LeftOut)) {
		if !strings.Contains(id, " ") { // a list that was not read completely needs no person
			asks = append(asks, id+": "+found.LeftOut[id])
		}
	}
	for _, d := range found.Cash {
		if len(found.Differences) == 0 { // otherwise a filed run may book the amount
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

// ReconcileAll returns a job that compares the accounts that match u, in the modes of the sources. If source is set, it
// uses only that source.
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
