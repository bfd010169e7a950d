package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/billing"
)

// announcing is a call of accounts announce.
type announcing struct {
	mode        string
	all, dryRun bool
	rate        float64
	yes         bool
	to          billing.Announcement
}

func accountsAnnounce(a *app) *cobra.Command {
	var c announcing
	var d operator.Decision
	cmd := &cobra.Command{
		Use: "announce ACCOUNT...|--all --why REASON", Short: "Tell subscribers what accounts may use",
		Long: `Tell subscribers what accounts may use, as a job: after an import, or to a subscriber that is new. Each account that was
ever granted anything has an access.snapshot, in the shape of access.changed, with the version of its target. It stands
in the order of the account's news: a snapshot comes after the change that made its version, and before the next one.

--provision also brings workspaces that are behind to their targets. No letter is sent, and nothing is booked.

ACCOUNT is as pawl accounts show takes it. pawl jobs show has a result for each account.`,
		Args: func(_ *cobra.Command, args []string) error {
			if c.all == (len(args) > 0) {
				return usagef("accounts announce needs accounts, or --all, and not both")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.accountable("accounts announce", &d); err != nil && !c.dryRun {
				return err
			}
			with := a.deciding
			if c.dryRun {
				with = a.asking
			}
			return with(cmd.Context(), func(ctx context.Context, s *session) error { return c.run(ctx, s, args, d) })
		},
	}
	modeFlag(cmd, &c.mode, "only accounts of live, or of test")
	cmd.Flags().BoolVar(&c.all, "all", false, "all accounts, in place of ACCOUNT")
	cmd.Flags().StringVar(&c.to.OnlyTo, "to", "", "tell only the subscriber with this `name`")
	cmd.Flags().BoolVar(&c.to.Provision, "provision", false, "also bring workspaces to their targets")
	cmd.Flags().Float64Var(&c.rate, "rate", 20, "how many accounts a second, at most")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show whom it is about, and do nothing")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask for confirmation")
	decisionFlags(cmd, &d, "why, for the audit trail (required)")
	return cmd
}

// run makes the job, or shows what it would be about.
func (c announcing) run(ctx context.Context, s *session, ids []string, d operator.Decision) error {
	if err := c.check(s); err != nil {
		return err
	}
	accounts, err := c.find(ctx, s, ids)
	if err != nil {
		return err
	}
	made := operator.AnnounceJob(c.to, accounts)
	made.Rate = c.rate
	n := len(accounts)
	does := "tell of " + output.Plural(n, "account")
	if c.to.Provision {
		behind := 0
		for _, l := range accounts {
			if l.Workspace < l.Version {
				behind++
			}
		}
		does += ", and bring " + output.Plural(behind, "workspace") + " to their targets"
	}
	if c.dryRun {
		return emit(s.app, accounts, func(a *app, accounts []account.Listed) error {
			if err := writeListed(a, accounts[:min(shownItems, n)]); err != nil {
				return err
			}
			tellOfMore(a, n-shownItems)
			_, err := fmt.Fprintf(a.out, "\nwould %s; nothing was done\n", does)
			return err
		})
	}
	if n == 0 {
		return errors.New("there is nothing to tell: none of the accounts was ever granted anything")
	}
	return s.startJob(ctx, made, "This is to "+does+".", d, c.yes)
}

// check refuses a call that nobody would be told by.
func (c announcing) check(s *session) error {
	subscribers := process.Subscribers(s.cfg)
	named := func(sub activities.Subscriber) bool { return c.to.OnlyTo == "" || c.to.OnlyTo == sub.Name }
	takes := func(sub activities.Subscriber) bool { return named(sub) && sub.Takes(billing.AccessSnapshot) }
	switch {
	case c.to.OnlyTo != "" && !slices.ContainsFunc(subscribers, named):
		return fmt.Errorf("no subscriber is named %q: name one of sinks.subscribers", c.to.OnlyTo)
	case !slices.ContainsFunc(subscribers, takes) && (c.to.OnlyTo != "" || !c.to.Provision):
		return errors.New("no subscriber would be told: have one take " + billing.AccessSnapshot +
			", in sinks.subscribers[].types, and restart the workers")
	case c.to.Provision && len(s.cfg.Sinks.Workspaces.Modes()) == 0:
		return errors.New("--provision: no workspaces are configured: set sinks.workspaces.url, or leave it out")
	}
	return nil
}

// find returns the accounts with something to tell.
func (c announcing) find(ctx context.Context, s *session, ids []string) (accounts []account.Listed, err error) {
	if c.all {
		accounts, err = account.List(ctx, s.db, account.Filter{Mode: c.mode, Limit: math.MaxInt32})
	}
	for _, id := range ids {
		named, err := operator.ShowAccount(ctx, s.db, id, c.mode)
		if err != nil {
			return nil, err
		}
		one, err := account.List(ctx, s.db, account.Filter{Mode: named.Mode, ID: named.ID, Limit: 1})
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, one...)
	}
	return slices.DeleteFunc(accounts, func(l account.Listed) bool { return l.Version == 0 }), err
}
