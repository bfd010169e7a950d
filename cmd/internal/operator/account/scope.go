package account

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/job"
)

// ItemTarget returns the target of a job item that is an account.
func ItemTarget(of billing.Scope) string { return of.Mode + "/" + of.Account }

// FindScope parses the target of a job item that is an account.
func FindScope(_ context.Context, d *decide.Decision) (of billing.Scope, key string, err error) {
	var found bool
	if of.Mode, of.Account, found = strings.Cut(d.Target, "/"); !found {
		return of, "", fmt.Errorf("%q has no account after the mode", d.Target)
	}
	return of, d.Verb + "/" + d.Target, nil
}

// Item returns the job item of an account.
func Item(mode, id string) job.Item {
	return job.Item{Target: ItemTarget(billing.Scope{Mode: mode, Account: id}), Name: id}
}

// Items returns a job item for each account, without duplicates.
func Items(accounts []billing.Scope) []job.Item {
	items, known := []job.Item{}, map[billing.Scope]bool{}
	for _, of := range accounts {
		if !known[of] {
			items, known[of] = append(items, Item(of.Mode, of.Account)), true
		}
	}
	return items
}
