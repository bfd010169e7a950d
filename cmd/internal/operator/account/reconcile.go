package account

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Reconcile applies the differences in a [*Reconciliation], which is both its Found and its result.
var Reconcile = decide.Verb{
	Name: job.Reconcile, Target: "ACCOUNT", Rule: reconcileRule, Short: "Bring an account to the provider's state",
	Item: reconcileItem,
}

// reconcileRule creates a receipt for each object that differs. The dispatcher of a running ingress starts the runs
// of these receipts. They update pawl's rows and run the resulting effects.
var reconcileRule = decide.Rule[*Reconciliation, *Reconciliation]{
	Find: decide.Shown(func(*Reconciliation) string { return "reconcile" }),
	Check: func(_ context.Context, d *decide.Decision, found *Reconciliation) (*decide.Change, error) {
		if len(found.drift) == 0 {
			return nil, d.Refuse("agrees with the provider: there is nothing to correct")
		}
		differences := map[string]any{}
		for _, o := range found.Differences {
			differences[o.Object+" "+o.Field] = []string{o.Ours, o.Theirs}
		}
		return &decide.Change{
			Target: found.Account, After: map[string]any{"differences": differences},
			Before: map[string]any{"mode": found.Mode, "customers": found.Customers, "compared": found.Compared},
		}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, found *Reconciliation, _ decide.Recorded) (string,
		*Reconciliation, error) {
		for _, c := range found.drift {
			delivery := receipt.Delivery{
				Source: found.source, Provider: "stripe", ReceivedAt: time.Now(), Secret: receipt.ByAPI,
				Header: http.Header{}, Events: []receipt.New{c.event},
			}
			delivery.Events[0].Correlation = found.id
			outcomes, err := d.Operator.Insert(ctx, delivery)
			if err != nil {
				return "", nil, fmt.Errorf("store the current state of %s: %w; earlier objects are stored: repeat the command",
					c.event.Object, err)
			}
			found.Filed = append(found.Filed, source.Filed(delivery, outcomes)...)
		}
		return fmt.Sprintf("%d objects filed", len(found.Filed)), found, nil
	},
}

// reconcileItem compares the account of a job's item and applies the differences. The result starts with "same",
// "mended", or "asks" if a person must review it. Several sources of a mode can use different accounts at the
// provider. reconcileItem uses the first source that has a customer of the account.
func reconcileItem(ctx context.Context, o *decide.Operator, d decide.Decision) (says string, err error) {
	only := d.Item.Job.Filter["source"]
	mode, id, _ := strings.Cut(d.Target, "/")
	names := knowing(o.APIs, mode, only)
	if len(names) == 0 {
		return "", fmt.Errorf("no source of mode %s has an api_key", mode)
	}
	var found *Reconciliation
	for _, name := range names {
		compared := &Reconciler{DB: o.DB, API: o.APIs[name].Background(), Source: name,
			Policy: o.Policy, Request: d.Request}
		if found, err = compared.Compare(ctx, id, mode); err != nil {
			return "", err
		}
		if len(found.Customers) > 0 {
			break
		}
	}
	said, err := mend(ctx, o, d, found)
	if err != nil {
		return "", err
	}
	return said, account.Compared(ctx, o.DB, account.Name{Mode: mode, ID: id})
}

// mend creates the receipts that apply the differences. An earlier attempt for the same item may already have created
// them.
func mend(ctx context.Context, o *decide.Operator, d decide.Decision, found *Reconciliation) (says string, err error) {
	known, err := o.Audit.Recorded(ctx, "reconcile/"+d.RequestID())
	if err != nil {
		return "", err
	}
	if len(found.Differences) > 0 {
		d.Found = found
		if _, err := o.Decide(ctx, d); err != nil {
			return "", err
		}
	}
	var asks []string // the objects that could not be compared
	for _, id := range slices.Sorted(maps.Keys(found.LeftOut)) {
		if !strings.Contains(id, " ") { // no person needs to review a list that was not read completely
			asks = append(asks, id+": "+found.LeftOut[id])
		}
	}
	for _, d := range found.Cash {
		if len(found.Differences) == 0 { // if there are differences, one of the created runs may book the amount
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
