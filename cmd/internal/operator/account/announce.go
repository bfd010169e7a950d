package account

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
)

// AnnounceJob returns a job that publishes the access of the accounts again.
func AnnounceJob(to billing.Announcement, accounts []account.Listed) *decide.NewJob {
	j := &decide.NewJob{Job: job.Job{Action: job.Announce, Filter: map[string]string{
		"to": to.OnlyTo, "provision": strconv.FormatBool(to.Provision),
	}}}
	for _, a := range accounts {
		j.Others = append(j.Others, Item(a.Mode, a.ID))
	}
	return j
}

// Announce publishes the access of an account again. It decides one item of a bulk job.
var Announce = decide.Verb{
	Name: job.Announce, Target: "MODE/ACCOUNT", Rule: announceRule, Short: "Publish the access of an account again",
}

// announcement returns the destinations of a job's item, and whether the workspace of the account is updated.
func announcement(d *decide.Decision) (to billing.Announcement, err error) {
	if d.Item == nil {
		return to, decide.Invalidf("%s is possible only as part of a job", d.Verb)
	}
	filter := d.Item.Job.Filter
	return billing.Announcement{OnlyTo: filter["to"], Provision: filter["provision"] == "true"}, nil
}

// announceRule publishes the access of an account to its destinations. It decides one item of a bulk job.
var announceRule = decide.Rule[billing.Scope, decide.Nothing]{
	Find: FindScope,
	Check: func(ctx context.Context, d *decide.Decision, of billing.Scope) (*decide.Change, error) {
		to, err := announcement(d)
		if err != nil {
			return nil, err
		}
		last, err := of.LastFact(ctx, d.Operator.DB)
		if err != nil {
			return nil, err
		}
		t, err := billing.New(d.Operator.DB).Target(ctx, of.Mode, of.Account)
		if err != nil {
			return nil, err
		}
		if last == nil || t.Version == 0 {
			return nil, d.Refuse("never had access: there is nothing to publish")
		}
		return &decide.Change{
			Target: of.Account,
			Before: map[string]any{"mode": of.Mode, "version": t.Version},
			After:  map[string]any{"to": to.OnlyTo, "provision": to.Provision},
			Do: func(ctx context.Context, tx pgx.Tx) error {
				return billing.Announce(ctx, tx, of, to, *last)
			},
		}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, of billing.Scope, _ decide.Recorded) (string, decide.Nothing,
		error) {
		to, err := announcement(d)
		if err != nil {
			return "", decide.Nothing{}, err
		}
		found, err := account.List(ctx, d.Operator.DB, account.Filter{Mode: of.Mode, ID: of.Account, Limit: 1})
		if err != nil || len(found) == 0 {
			return "", decide.Nothing{}, err
		}
		says := fmt.Sprintf("version %d: %s", found[0].Version, Uses(found[0].Plan, found[0].Quantity))
		if to.Provision && found[0].Workspace < found[0].Version {
			says += "; pawl updates its workspace"
		}
		return says, decide.Nothing{}, nil
	},
}
