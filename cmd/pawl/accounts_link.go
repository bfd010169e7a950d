package main

import (
	"context"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing"
)

func accountsLink(a *app) *cobra.Command {
	var mode string
	var yes bool
	rate := 20.0
	d := operator.Decision{Verb: operator.VerbApplyMeaning}
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
			if err := a.accountable("accounts link", &d); err != nil {
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
				return switchMeaning(ctx, s, d, &operator.MeaningSwitch{MeaningDiff: diff, Rate: rate},
					yes || len(diff.Accounts) == 0)
			})
		},
	}
	modeFlag(cmd, &mode, "live or test, where sources of both modes have a table")
	cmd.Flags().Float64Var(&rate, "rate", rate, "how many events or accounts a second are run or folded anew, at most")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	decisionFlags(cmd, &d, "why, for the audit trail (required)")
	return cmd
}

// checkLink refuses IDs that no account can have.
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
		list, err := billing.Links(ctx, s.db)
		if list == nil {
			list = []billing.Link{}
		}
		return list, err
	}, func(a *app, list []billing.Link) error {
		rows := [][]string{{"CONNECTED", "MODE", "ACCOUNT", "SINCE", "WHO", "WHY"}}
		for _, l := range list {
			rows = append(rows, []string{l.Connected, l.Mode, l.Account, output.Time(l.Since), l.Who, l.Why})
		}
		return a.Table(rows)
	})
}
