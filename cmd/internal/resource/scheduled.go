package resource

import (
	"cmp"
	"context"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

var scheduled = &list[account.Scheduled]{
	Description: Description{
		Name: "scheduled", Title: "Scheduled", Command: "scheduled list", Path: "/scheduled",
		Short: "List the scheduled actions, earliest first",
		Long: `List the scheduled actions, earliest first: ends of access, payment reminders, and tasks and bookings that follow
unless an event arrives before. A later event can change or remove an action. For the actions of the next twelve hours, use
--until 12h.`,
		Empty: "No action is scheduled for these filters.", Right: role.RightRead, Paged: true,
		Filters: []Filter{
			liveUnless("actions"),
			{Name: "account", Usage: "only actions of this account"},
			{Name: "since", Usage: "only actions due since this `time`: 12h or 7d from now, 2026-11-22 or 2026-11-22T08:00:00Z",
				Kind: Time, Ahead: true},
			{Name: "until", Usage: "only actions due before this `time`: 12h or 7d from now, or a date", Kind: Time,
				Ahead: true},
		},
		Drops: []string{"EVENT", "AMOUNT", "ABOUT"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]account.Scheduled, error) {
		f := account.ScheduledFilter{Mode: cmp.Or(q.Text("mode"), "live"), Account: q.Text("account"),
			Since: q.ahead("since"), Until: q.ahead("until"), Limit: q.Limit}
		at, key, err := q.after()
		if err != nil {
			return nil, err
		}
		kind, object, found := strings.Cut(key, "/")
		if key != "" && !found {
			return nil, noCursor()
		}
		f.After = account.Due{At: at, Kind: fold.DueKind(kind), Object: object}
		return account.ListScheduled(ctx, e.Operator.DB, f)
	},
	cursor: func(s account.Scheduled) string { return timeCursor(s.At, string(s.Kind)+"/"+s.Object) },
	table:  tables.Scheduled,
}
