package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/billing"
)

func accountsList(a *app) *cobra.Command {
	var f account.Filter
	cmd := &cobra.Command{
		Use: "list", Short: "List the accounts with their plan, status and access", Args: noArgument,
		Long: `List the accounts with what each may use, the status of its subscriptions that have not ended, and until when: when its
access ends, or is expected to.`,
	}
	modeFlag(cmd, &f.Mode, "only those of live, or of test")
	oneOfFlag(cmd, &f.Access, "access", "only accounts with this `access`: active, suspended, none (never granted)",
		"active", "suspended", "none")
	cmd.Flags().StringVar(&f.Plan, "plan", "", "only accounts on this `plan`")
	cmd.Flags().StringVar(&f.Status, "status", "", "only those with a subscription of this `status`: past_due, say")
	timeFlag(cmd.Flags(), &f.Before, "until-before", "only those whose access ends before this `time`")
	cmd.Flags().Var(&checked{kind: "mode/account", parse: func(text string) (err error) {
		var found bool
		if f.After.Mode, f.After.ID, found = strings.Cut(text, "/"); !found {
			return usagef("write an account after its mode, as live/acme")
		}
		return nil
	}}, "after", "go on behind this `account`, written after its mode: live/acme")
	return list(a, cmd, listing[account.Listed]{
		read: func(ctx context.Context, s *session, limit int) ([]account.Listed, error) {
			f.Limit = limit
			return account.List(ctx, s.db, f)
		},
		after: func(l account.Listed) string { return "--after " + operator.ShellWord(l.Mode+"/"+l.ID) },
		table: tables.Accounts, drops: droppedOfAccounts,
	})
}

// droppedOfAccounts are the columns that a narrow list of accounts does without.
var droppedOfAccounts = []string{"CUSTOMER", "VERSION", "MODE"}

func accountsShow(a *app) *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show what an account may use and why, and what was booked for it",
		Long: `Show what an account may use and why, its subscriptions and invoices, what was booked for it, and what a person
has to do about it. ID is our ID of the account, or what a customer quotes: a customer, a subscription, an invoice, a payment or a charge by the provider's ID,
an invoice's number, or an e-mail address.`,
		Args: oneID,
	}
	modeFlag(cmd, &mode, "live or test, where both have the ID")
	return show(a, cmd, func(ctx context.Context, s *session, args []string) (*account.Account, error) {
		return operator.ShowAccount(ctx, s.db, args[0], mode)
	}, func(a *app, acc *account.Account) { a.Tables(tables.Account(acc)...) })
}

func accountsLink(a *app) *cobra.Command {
	var mode string
	d := decision{Decision: operator.Decision{Verb: operator.VerbApplyMeaning}}
	cmd := &cobra.Command{
		Use: "link CONNECTED ACCOUNT --why REASON", Short: "Say which account of yours a connected account is",
		Long: `Say that a connected account of the provider's, acct_…, is an account of yours: for all processes, without a restart,
where a source of its mode has accounts: {table: true}. It switches the meaning of facts, as pawl meaning apply does.
Events of the connected account that were kept and not run are run then. If objects go from one account to another,
or anything changes for an account, it shows that first, and asks.

pawl accounts links lists the links in force. The audit trail has who and why.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("accounts link needs the ID of a connected account, and that of an account of yours")
			}
			return checkLink(args[0], args[1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.accountable(a, "accounts link"); err != nil {
				return err
			}
			return a.withSession(cmd.Context(), 0, a.config, func(ctx context.Context, s *session) error {
				of := billing.Connected{Mode: mode, ID: args[0]}
				switch linked := s.Policy.Linked; {
				case mode != "":
				case len(linked) > 1:
					return usagef("accounts link needs --mode: sources of both modes have a table of connected accounts")
				case len(linked) == 1:
					of.Mode = linked[0]
				default:
					of.Mode = "live"
				}
				diff, err := operator.DiffLink(ctx, s.db, s.Policy, of, args[1], s.folded())
				if err != nil {
					return err
				}
				d.yes = d.yes || len(diff.Accounts) == 0
				return switchMeaning(ctx, s, d, diff, nil)
			})
		},
	}
	modeFlag(cmd, &mode, "live or test, where sources of both modes have a table")
	d.manyFlags(cmd, 20, "how many events or accounts a second are run or folded anew, at most")
	d.flags(cmd, "why, for the audit trail (required)")
	return cmd
}

func checkLink(connected, account string) error {
	if !config.IsAccount(connected) || strings.ContainsFunc(connected, unicode.IsSpace) {
		return usagef("%.40q is no connected account: write its ID at the provider, acct_…", connected)
	}
	if !config.IsAccount(account) {
		return usagef("%.40q is no account: write printable text of 200 bytes at most", account)
	}
	return nil
}

func accountsLinks(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "links", Short: "List the connected accounts that are accounts of yours", Args: noArgument,
		Long: `List the connected accounts that the meaning in force maps to accounts of yours, with who has brought each into force,
when and why: by pawl accounts link, or by the configuration.`,
	}
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]billing.Link, error) {
		links, err := billing.Links(ctx, s.db)
		return append([]billing.Link{}, links...), err
	}, func(a *app, links []billing.Link) {
		a.Table(output.Rows("CONNECTED|MODE|ACCOUNT|SINCE|WHO|WHY", links, func(l billing.Link) []any {
			return []any{l.Connected, l.Mode, l.Account, l.Since, l.Who, l.Why}
		}))
	})
}

// announcing is a call of accounts announce.
type announcing struct {
	decision
	mode string
	all  bool
	to   billing.Announcement
}

func accountsAnnounce(a *app) *cobra.Command {
	var c announcing
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
			if err := c.accountable(a, "accounts announce"); err != nil {
				return err
			}
			return c.run(cmd.Context(), a, args)
		},
	}
	modeFlag(cmd, &c.mode, "only accounts of live, or of test")
	cmd.Flags().BoolVar(&c.all, "all", false, "all accounts, in place of ACCOUNT")
	cmd.Flags().StringVar(&c.to.OnlyTo, "to", "", "tell only the subscriber with this `name`")
	cmd.Flags().BoolVar(&c.to.Provision, "provision", false, "also bring workspaces to their targets")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show whom it is about, and do nothing")
	c.manyFlags(cmd, 20, "how many accounts a second, at most")
	c.flags(cmd, "why, for the audit trail (required)")
	return cmd
}

// run makes the job, or shows its accounts.
func (c announcing) run(ctx context.Context, a *app, ids []string) error {
	var made *operator.NewJob
	does := ""
	err := a.asking(ctx, func(ctx context.Context, s *session) error {
		if err := c.check(s); err != nil {
			return err
		}
		accounts, err := c.find(ctx, s, ids)
		if err != nil {
			return err
		}
		made = operator.AnnounceJob(c.to, accounts)
		n := len(accounts)
		does = "tell of " + output.Plural(n, "account")
		if c.to.Provision {
			behind := 0
			for _, l := range accounts {
				if l.Workspace < l.Version {
					behind++
				}
			}
			does += ", and bring " + output.Plural(behind, "workspace") + " to their targets"
		}
		switch {
		case c.dryRun:
			return emit(a, accounts, func(a *app, accounts []account.Listed) {
				a.List(tables.Accounts(accounts[:min(shownItems, n)]), droppedOfAccounts...)
				tellOfMore(a, n-shownItems)
				fmt.Fprintf(a.out, "\nwould %s; nothing was done\n", does)
			})
		case n == 0:
			return errors.New("there is nothing to tell: none of the accounts was ever granted anything")
		}
		return nil
	})
	if err != nil || c.dryRun {
		return err
	}
	return a.startJob(ctx, c.decision, made, "This is to "+does+".")
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
