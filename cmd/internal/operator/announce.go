package operator

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
)

// AnnounceJob returns a job that publishes the access of the accounts again.
func AnnounceJob(to billing.Announcement, accounts []account.Listed) *NewJob {
	j := &NewJob{Job: job.Job{Action: job.Announce, Filter: map[string]string{
		"to": to.OnlyTo, "provision": strconv.FormatBool(to.Provision),
	}}}
	for _, a := range accounts {
		j.Others = append(j.Others, accountItem(a.Mode, a.ID))
	}
	return j
}

// announceRule publishes the access of an account to its subscribers. It decides the items of a job.
var announceRule = rule[billing.Scope, nothing]{
	find: findScope,
	check: func(ctx context.Context, d *Decision, of billing.Scope) (*change, error) {
		last, err := of.LastFact(ctx, d.o.DB)
		if err != nil {
			return nil, err
		}
		t, err := billing.New(d.o.DB).Target(ctx, of.Mode, of.Account)
		if err != nil {
			return nil, err
		}
		if last == nil || t.Version == 0 {
			return nil, d.refuse("was never granted anything: there is nothing to tell")
		}
		return &change{
			target: of.Account,
			before: map[string]any{"mode": of.Mode, "version": t.Version},
			after:  map[string]any{"to": d.To.OnlyTo, "provision": d.To.Provision},
			do: func(ctx context.Context, tx pgx.Tx) error {
				return billing.Announce(ctx, tx, of, d.To, *last)
			},
		}, nil
	},
	answer: func(ctx context.Context, d *Decision, of billing.Scope, _ recorded) (string, nothing, error) {
		found, err := account.List(ctx, d.o.DB, account.Filter{Mode: of.Mode, ID: of.Account, Limit: 1})
		if err != nil || len(found) == 0 {
			return "", nothing{}, err
		}
		says := fmt.Sprintf("version %d: %s", found[0].Version, Uses(found[0].Plan, found[0].Quantity))
		if d.To.Provision && found[0].Workspace < found[0].Version {
			says += "; its workspace follows"
		}
		return says, nothing{}, nil
	},
}
