package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

func (a *app) eventsList() *cobra.Command {
	var f operator.Events
	var since string
	cmd := &cobra.Command{
		Use: "list", Short: "List events, the newest first", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Status != "" && !slices.Contains(receipt.Statuses, receipt.Status(f.Status)) {
				return usagef("--status: %q is no status: use one of %s", f.Status, strings.Join(statuses(), ", "))
			}
			if f.Limit < 1 {
				return usagef("--limit: write a number from 1")
			}
			var err error
			if f.Since, err = sinceFlag(since, time.Now()); err != nil {
				return err
			}
			if _, err := uuid.Parse(f.OlderThan); f.OlderThan != "" && err != nil {
				return usagef("--older-than takes the ID of a receipt, as --json shows it")
			}
			limit := f.Limit
			f.Limit = oneMore(limit)
			var receipts []timeline.Receipt
			err = a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				receipts, err = operator.ListEvents(ctx, db, f)
				return err
			})
			if err != nil {
				return err
			}
			if len(receipts) > limit {
				receipts = receipts[:limit]
				fmt.Fprintf(a.err, "there are more than these %d, the newest: use --limit, or go on with --older-than %s\n", limit, receipts[limit-1].ID)
			}
			if a.json {
				return a.writeJSON(receipts)
			}
			return a.writeReceipts(receipts)
		},
	}
	cmd.Flags().StringVar(&f.Status, "status", "", "only events with this `status`")
	cmd.Flags().StringVar(&f.ReasonCode, "reason", "", "only events with this reason `code`, such as type_not_wanted")
	cmd.Flags().StringVar(&f.Source, "source", "", "only events of this source")
	cmd.Flags().StringVar(&f.Type, "type", "", "only events of this type")
	cmd.Flags().StringVar(&f.Object, "object", "", "only events about this object of the provider: an invoice, a subscription, a customer, ...")
	cmd.Flags().StringVar(&f.Account, "account", "", "only events about this account of ours")
	cmd.Flags().StringVar(&since, "since", "", "only events received since this `time`: 90m, 7d, 2026-11-22 or 2026-11-22T08:00:00Z")
	cmd.Flags().StringVar(&f.OlderThan, "older-than", "", "go on behind this `receipt`")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "how many at most")
	return cmd
}

// sinceFlag reads a time, or how long ago it was.
func sinceFlag(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("--since: %q is no time: write how long ago, as 90m or 7d, or a time, as 2026-11-22 or 2026-11-22T08:00:00Z", text)
}

// statuses are the words that --status takes.
func statuses() (words []string) {
	for _, s := range receipt.Statuses {
		words = append(words, string(s))
	}
	return words
}

func (a *app) writeReceipts(receipts []timeline.Receipt) error {
	rows := [][]string{{"RECEIVED", "STATUS", "SOURCE", "TYPE", "ACCOUNT", "AMOUNT", "EVENT", "DUPLICATES", "REASON"}}
	for _, r := range receipts {
		rows = append(rows, []string{clock(r.ReceivedAt), r.Status, r.Source, r.Type, r.OurAccount, amountOf(r), r.EventID, strconv.Itoa(r.Duplicates), r.Reason})
	}
	return table(a.out, rows)
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

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// becauseOf is because of a reason that may begin with the status that it is the reason of.
func becauseOf(status, reason string) string {
	return because(strings.TrimPrefix(reason, status+": "))
}

func empty(s string) bool { return s == "" }
