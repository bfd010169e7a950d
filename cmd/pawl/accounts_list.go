package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/account"
)

func accountsList(a *app) *cobra.Command {
	var f account.Filter
	var limit int
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
	limitFlag(cmd, &limit, 50)
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]account.Listed, error) {
		f.Limit = oneMore(limit)
		found, err := account.List(ctx, s.db, f)
		return newest(a, found, limit, func(l account.Listed) string {
			return "--after " + operator.ShellWord(l.Mode+"/"+l.ID)
		}), err
	}, writeListed)
}

func writeListed(a *app, accounts []account.Listed) error {
	return a.List(tables.Accounts(accounts), "CUSTOMER", "VERSION", "MODE")
}
