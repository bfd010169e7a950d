package resource

import (
	"cmp"
	"context"
	"strconv"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/breaker"
)

var outages = &list[breaker.Outage]{
	Description: Description{
		Name: "outages", Title: "Outages", Command: "outages list", Path: "/outages",
		Short: "List the outages of sinks with the affected events, accounts and money, newest first",
		Long: `List the outages of sinks and destinations, newest first, with their cause and the events that each outage affected: an
effect of the event waited for the sink, or failed. MONEY adds up the amounts of these events by currency. An outage can
affect live and test events; the list counts live events unless you choose test. pawl events list --outage lists the
events of an outage.`,
		Empty: "No sink was down with these filters.",
		Right: role.RightRead, Paged: true,
		Filters: []Filter{
			liveUnless("events"),
			{Name: "sink", Usage: "only outages of this sink"},
			{Name: "since", Usage: "only outages that lasted after this `time`: " + TimeUsage, Kind: Time},
			{Name: "until", Usage: "only outages that began before this `time`", Kind: Time},
		},
		Drops: []string{"TO", "ACCOUNTS", "CAUSE"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]breaker.Outage, error) {
		f := breaker.OutageFilter{Mode: cmp.Or(q.Text("mode"), "live"), Sink: q.Text("sink"), Since: q.time("since"),
			Until: q.time("until"), Limit: q.Limit}
		at, id, err := q.after()
		if err != nil {
			return nil, err
		}
		if f.After.Since = at; id != "" {
			if f.After.ID, err = strconv.ParseInt(id, 10, 64); err != nil {
				return nil, noCursor()
			}
		}
		return breaker.Outages(ctx, e.Operator.DB, f)
	},
	cursor: func(o breaker.Outage) string { return timeCursor(o.Since, strconv.FormatInt(o.ID, 10)) },
	table:  tables.Outages,
}
