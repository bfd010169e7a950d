package cli

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
	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	operatoraccount "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

func accountsShow(a *command.App) *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show the access of an account with its reason, and its entries",
		Long: `Show the access of an account with its reason, its subscriptions, invoices and finance entries, and its open tasks.

ID is your ID of the account. It can also be an ID that a customer quotes: the provider's ID of a customer, subscription,
invoice, payment or charge, the number of an invoice, or an email address.`,
		Args: command.OneID,
	}
	command.ModeFlag(cmd, &mode, "live or test, if both have the ID")
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, args []string) (*account.Account, error) {
		return operatoraccount.Show(ctx, s.DB, args[0], mode)
	}, func(a *command.App, acc *account.Account) { a.Tables(tables.Account(acc)...) })
}

func accountsLink(a *command.App) *cobra.Command {
	var mode string
	d := decision{Decision: decide.Decision{Verb: rules.Apply.Name}}
	cmd := &cobra.Command{
		Use: "link CONNECTED ACCOUNT --reason REASON", Short: "Link a connected account to an account of yours",
		Long: `Link a connected account of the provider (acct_…) to an account of yours. The link applies to all processes without a
restart, if a source of the same mode has accounts: {table: true}. The command changes the billing rules, as pawl rules
apply does. Events of the connected account that were stored without a run are then run. If objects move from one
account to another, or if the state of an account changes, the command shows the change and asks you first.

pawl accounts links lists the active links. The audit trail records who linked the account and why.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return command.Usagef("accounts link needs the ID of a connected account and the ID of an account of yours")
			}
			return checkLink(args[0], args[1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.accountable(a, "accounts link"); err != nil {
				return err
			}
			return a.WithSession(cmd.Context(), 0, a.Load, func(ctx context.Context, s *command.Session) error {
				of := fact.Connected{Mode: mode, ID: args[0]}
				switch linked := s.Policy.Linked; {
				case mode != "":
				case len(linked) > 1:
					return command.Usagef("accounts link needs --mode: sources of both modes have a table of connected accounts")
				case len(linked) == 1:
					of.Mode = linked[0]
				default:
					of.Mode = "live"
				}
				diff, err := rules.CompareLink(ctx, s.DB, s.Policy, of, args[1], folded(s))
				if err != nil {
					return err
				}
				d.yes = d.yes || len(diff.Accounts) == 0
				return changeRules(ctx, s, d, diff)
			})
		},
	}
	command.ModeFlag(cmd, &mode, "live or test, if sources of both modes have a table")
	d.manyFlags(cmd, 20, "the highest number of events or accounts to process per second")
	d.flags(cmd, "the reason, for the audit trail (required)")
	return cmd
}

func checkLink(connected, account string) error {
	if !config.IsAccount(connected) || strings.ContainsFunc(connected, unicode.IsSpace) {
		return command.Usagef("%.40q is no connected account: write its ID at the provider, acct_…", connected)
	}
	if !config.IsAccount(account) {
		return command.Usagef("%.40q is no account: write printable text of 200 bytes at most", account)
	}
	return nil
}

func accountsLinks(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "links", Short: "List the connected accounts that are linked to accounts of yours",
		Args: command.NoArgument,
		Long: `List the connected accounts that the active billing rules map to accounts of yours. Each row has the person who added the
link, the time and the reason. A link comes from pawl accounts link or from the configuration.`,
	}
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, _ []string) ([]billing.Link, error) {
		links, err := billing.Links(ctx, s.DB)
		return append([]billing.Link{}, links...), err
	}, func(a *command.App, links []billing.Link) {
		a.Table(output.Rows("CONNECTED|MODE|ACCOUNT|SINCE|ACTOR|REASON", links, func(l billing.Link) []any {
			return []any{l.Connected, l.Mode, l.Account, l.Since, l.Actor, l.Reason}
		}))
	})
}

// announcing holds the arguments of accounts announce.
type announcing struct {
	decision
	mode string
	all  bool
	to   billing.Announcement
}

func accountsAnnounce(a *command.App) *cobra.Command {
	var c announcing
	cmd := &cobra.Command{
		Use:   "announce ACCOUNT...|--all --reason REASON",
		Short: "Publish the current access of accounts to destinations",
		Long: `Publish the current access of accounts to destinations, as a job. Use it after an import or for a new destination. Each
account that ever had access publishes one access.snapshot, which has the fields of access.changed and the version of the
target. Snapshots keep the order of the events of an account: a snapshot follows the change that created its version and
precedes the next change.

--provision also updates workspaces that are behind their targets. The command sends no email and books no entry.

ACCOUNT is any ID that pawl accounts show accepts. pawl jobs show has a result for each account.`,
		Args: func(_ *cobra.Command, args []string) error {
			if c.all == (len(args) > 0) {
				return command.Usagef("accounts announce needs either accounts or --all")
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
	command.ModeFlag(cmd, &c.mode, "only live accounts, or only test accounts")
	cmd.Flags().BoolVar(&c.all, "all", false, "all accounts, instead of ACCOUNT")
	cmd.Flags().StringVar(&c.to.OnlyTo, "to", "", "publish only to the destination with this `name`")
	cmd.Flags().BoolVar(&c.to.Provision, "provision", false, "also update workspaces to their targets")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "list the accounts and change nothing")
	c.manyFlags(cmd, 20, "the highest number of accounts per second")
	c.flags(cmd, "the reason, for the audit trail (required)")
	return cmd
}

// run starts the job. With --dry-run it lists the accounts of the job and starts nothing.
func (c announcing) run(ctx context.Context, a *command.App, ids []string) error {
	var made *decide.NewJob
	does := ""
	err := a.Asking(ctx, func(ctx context.Context, s *command.Session) error {
		if err := c.check(s); err != nil {
			return err
		}
		accounts, err := c.find(ctx, s, ids)
		if err != nil {
			return err
		}
		made = operatoraccount.AnnounceJob(c.to, accounts)
		n := len(accounts)
		does = "publish the access of " + output.Plural(n, "account")
		if c.to.Provision {
			behind := 0
			for _, l := range accounts {
				if l.Workspace < l.Version {
					behind++
				}
			}
			does += " and update " + output.Plural(behind, "workspace")
		}
		switch {
		case c.dryRun:
			return command.Emit(a, accounts, func(a *command.App, accounts []account.Listed) {
				a.List(tables.Accounts(accounts[:min(shownItems, n)]), resource.Named("accounts").About().Drops...)
				tellOfMore(a, n-shownItems)
				fmt.Fprintf(a.Out, "\nwould %s; nothing was done\n", does)
			})
		case n == 0:
			return errors.New("there is nothing to publish: none of the accounts ever had access")
		}
		return nil
	})
	if err != nil || c.dryRun {
		return err
	}
	return startJob(ctx, a, c.decision, made, "This job would "+does+".")
}

// check returns an error if the job would neither publish nor provision anything.
func (c announcing) check(s *command.Session) error {
	destinations := process.Destinations(s.Config)
	named := func(sub activities.Destination) bool { return c.to.OnlyTo == "" || c.to.OnlyTo == sub.Name }
	takes := func(sub activities.Destination) bool { return named(sub) && sub.Takes(billing.AccessSnapshot) }
	switch {
	case c.to.OnlyTo != "" && !slices.ContainsFunc(destinations, named):
		return fmt.Errorf("no destination is named %q: name one of destinations", c.to.OnlyTo)
	case !slices.ContainsFunc(destinations, takes) && (c.to.OnlyTo != "" || !c.to.Provision):
		return errors.New("no destination receives " + billing.AccessSnapshot +
			": add it to destinations.NAME.events and restart the workers")
	case c.to.Provision && len(s.Config.Sinks["workspaces"].Modes()) == 0:
		return errors.New("--provision: no workspaces are configured: set sinks.workspaces.url or omit the flag")
	}
	return nil
}

func (c announcing) find(ctx context.Context, s *command.Session, ids []string) (accounts []account.Listed, err error) {
	if c.all {
		accounts, err = account.List(ctx, s.DB, account.Filter{Mode: c.mode, Limit: math.MaxInt32})
	}
	for _, id := range ids {
		named, err := operatoraccount.Show(ctx, s.DB, id, c.mode)
		if err != nil {
			return nil, err
		}
		one, err := account.List(ctx, s.DB, account.Filter{Mode: named.Mode, ID: named.ID, Limit: 1})
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, one...)
	}
	return slices.DeleteFunc(accounts, func(l account.Listed) bool { return l.Version == 0 }), err
}
