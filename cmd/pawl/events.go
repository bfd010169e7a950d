package main

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

func eventsList(a *app) *cobra.Command {
	var f operator.Events
	var limit int
	cmd := &cobra.Command{Use: "list", Short: "List events, the newest first", Args: noArgument}
	eventFilter(cmd, &f, "only events with this `status`")
	cmd.Flags().StringVar(&f.OlderThan, "older-than", "", "go on behind this `receipt`")
	limitFlag(cmd, &limit, 50)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if f.Status != "" && !slices.Contains(receipt.Statuses, receipt.Status(f.Status)) {
			return usagef("--status: %q is no status: use one of %s", f.Status, strings.Join(statuses(), ", "))
		}
		if _, err := uuid.Parse(f.OlderThan); f.OlderThan != "" && err != nil {
			return usagef("--older-than takes the ID of a receipt, as --json shows it")
		}
		return nil
	}
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]timeline.Receipt, error) {
		f.Limit = oneMore(limit)
		found, err := operator.ListEvents(ctx, s.db, f)
		return newest(a, found, limit, func(r timeline.Receipt) string { return "--older-than " + r.ID }), err
	}, writeReceipts)
}

// statuses are the words that --status takes.
func statuses() (words []string) {
	for _, s := range receipt.Statuses {
		words = append(words, string(s))
	}
	return words
}

func writeReceipts(a *app, receipts []timeline.Receipt) error {
	return a.List(tables.Receipts(receipts), "DUPLICATES", "SOURCE", "AMOUNT", "ACCOUNT", "TYPE", "RECEIVED")
}
