package resource

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// liveUnless is a filter by mode. Without it, a list contains live mode only, so that test money is never counted as
// money.
func liveUnless(items string) Filter {
	return Filter{Name: "mode", Usage: "only live " + items + " (default), or only test " + items,
		Values: []string{"live", "test"}, Default: "live"}
}

var entryFilters = []Filter{
	liveUnless("entries"),
	{Name: "account", Usage: "only entries of this account"},
	{Name: "kind", Usage: "only entries of this `kind`", Values: account.EntryKinds},
	{Name: "since", Usage: "only money that moved since this `time`: " + TimeUsage, Kind: Time},
	{Name: "until", Usage: "only money that moved before this `time`", Kind: Time},
}

func entryFilter(q Query) account.EntryFilter {
	return account.EntryFilter{Mode: cmp.Or(q.Text("mode"), "live"), Account: q.Text("account"), Kind: q.Text("kind"),
		Since: q.time("since"), Until: q.time("until"), Limit: q.Limit}
}

var entries = &list[account.ListedEntry]{
	Description: Description{
		Name: "entries", Title: "Money", Command: "entries list", Path: "/entries",
		Short: "List the finance entries: the latest movement of money first",
		Long: `List the finance entries: payments, refunds, disputes, credit notes and corrections, by the day on which the money
moved. The list has the fee and the net amount of the provider, if they are known. pawl entries sums adds the entries up
by day and currency.`,
		Empty: "No entry matches these filters. An entry appears when finance accepts it.",
		Right: role.RightRead, Paged: true, Totals: "entry-sums", Beside: "skipped-entries", Filters: entryFilters,
		Drops: []string{"PAID", "EVENT", "MONEY MOVED", "BY", "FEE", "INVOICE"},
	},
	read: func(ctx context.Context, e Env, q Query) (_ []account.ListedEntry, err error) {
		f := entryFilter(q)
		if f.After.OccurredAt, f.After.Key, err = q.after(); err != nil {
			return nil, err
		}
		return account.Entries(ctx, e.Operator.DB, f)
	},
	cursor: func(l account.ListedEntry) string { return timeCursor(l.OccurredAt, l.Key) },
	table:  tables.Entries,
}

var entrySums = &list[account.EntrySum]{
	Description: Description{
		Name: "entry-sums", Title: "Totals per day", Command: "entries sums", Path: "/entries/sums",
		Short: "Add up the finance entries by day and currency, the latest day first",
		Long: `Add up the finance entries by day (UTC) and currency: money received, money paid out, and the total. Fees and the net
amount are in the currency of the provider's balance; FEE UNKNOWN counts the entries without them. Amounts of different
currencies are never added.`,
		Empty: "No entry matches these filters.", Right: role.RightRead, Paged: true, Part: true, Filters: entryFilters,
		Drops: []string{"FEE UNKNOWN", "ENTRIES"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]account.EntrySum, error) {
		f := entryFilter(q)
		if q.Cursor != "" {
			day, currency, found := strings.Cut(q.Cursor, "/")
			var err error
			if f.After.OccurredAt, err = time.Parse(time.DateOnly, day); err != nil || !found {
				return nil, noCursor()
			}
			f.After.Currency = currency
		}
		return account.EntrySums(ctx, e.Operator.DB, f)
	},
	cursor: func(s account.EntrySum) string { return s.Day.Format(time.DateOnly) + "/" + s.Currency },
	table:  tables.EntrySums,
}

var skipped = &list[account.SkippedEntry]{
	Description: Description{
		Name: "skipped-entries", Title: "Skipped entries", Command: "entries skipped", Path: "/entries/skipped",
		Short: "List the finance entries that a person skipped: money that moved and is not booked",
		Long: `List the finance entries that a person skipped, by the day on which the money moved, with the person and the reason.
Their money is not booked: pawl entries list and pawl entries sums do not contain it. pawl entries skipped-sums adds the
skipped entries up by currency. Book them in your finance system if they belong there; pawl does not book them later. An
entry with the note "perhaps booked" had an attempt without an answer: check your finance system first. If a
person skips the billing state of an event, the list contains no entry of the event, because pawl has not computed it.`,
		Empty: "No entry was skipped.", Right: role.RightRead, Paged: true, Totals: "skipped-sums",
		Filters: entryFilters, Drops: []string{"SKIPPED", "INVOICE", "EVENT", "MONEY MOVED"},
	},
	read: func(ctx context.Context, e Env, q Query) (_ []account.SkippedEntry, err error) {
		f := entryFilter(q)
		if f.After.OccurredAt, f.After.Key, err = q.after(); err != nil {
			return nil, err
		}
		return account.SkippedEntries(ctx, e.Operator.DB, f)
	},
	cursor: func(s account.SkippedEntry) string { return timeCursor(s.OccurredAt, s.Key) },
	table:  tables.SkippedEntries,
}

var skippedSums = &list[account.SkippedSum]{
	Description: Description{
		Name: "skipped-sums", Title: "Skipped entries by currency", Command: "entries skipped-sums",
		Path: "/entries/skipped/sums", Short: "Add up the skipped finance entries by currency",
		Long: `Add up the finance entries that a person skipped, by currency. This money moved and is not booked. PERHAPS BOOKED is the
amount of entries with an attempt that had no answer. Amounts of different currencies are never added.`,
		Empty: "No entry was skipped.", Right: role.RightRead, Part: true, Filters: entryFilters,
	},
	read: func(ctx context.Context, e Env, q Query) ([]account.SkippedSum, error) {
		return account.SkippedSums(ctx, e.Operator.DB, entryFilter(q))
	},
	table: tables.SkippedSums,
}
