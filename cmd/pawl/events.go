package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
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
	rows := [][]string{{"RECEIVED", "STATUS", "SOURCE", "TYPE", "ACCOUNT", "AMOUNT", "EVENT", "DUPLICATES", "REASON"}}
	for _, r := range receipts {
		rows = append(rows, []string{output.Time(r.ReceivedAt), r.Status, r.Source, r.Type, r.OurAccount, amountOf(r),
			r.EventID, strconv.Itoa(r.Duplicates), r.Reason})
	}
	return a.List(rows, "DUPLICATES", "SOURCE", "AMOUNT", "ACCOUNT", "TYPE", "RECEIVED")
}

// amountOf is the money that an event is about, "" for none.
func amountOf(r timeline.Receipt) string {
	return amount(r.Amount, r.Currency)
}

func amount(of *int64, currency string) string {
	if of == nil {
		return ""
	}
	return stripe.Money(*of, currency)
}

// becauseOf is because of a reason that may begin with the status that it is the reason of.
func becauseOf(status, reason string) string {
	return output.Because(strings.TrimPrefix(reason, status+": "))
}

func empty(s string) bool { return s == "" }
