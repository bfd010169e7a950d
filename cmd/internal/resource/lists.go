package resource

import (
	"context"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	rejections "github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/token"
)

// All contains every list, in the order of the console.
var All = []List{events, accounts, emails, scheduled, entries, entrySums, skipped, skippedSums, unassigned, tasks,
	approvals, jobs, effects, rejected, sinks, outages, sources, rules, trail, listedPeople, tokens}

func mode(items string) Filter {
	return Filter{Name: "mode", Usage: "only live " + items + ", or only test " + items,
		Values: []string{"live", "test"}}
}

func statuses() (words []string) {
	for _, s := range receipt.Statuses {
		words = append(words, string(s))
	}
	return words
}

var events = &list[timeline.Receipt]{
	Description: Description{
		Name: "events", Title: "Events", Command: "events list", Path: "/events",
		Short: "List events, newest first",
		Empty: "No event matches these filters. Remove a filter, or search for an object in the field above.",
		Right: role.RightRead, Paged: true,
		Filters: []Filter{
			{Name: "status", Usage: "only events with this `status`", Values: statuses()},
			{Name: "reason_code", Usage: "only events with this reason `code`, such as type_ignored"},
			mode("events"),
			{Name: "source", Usage: "only events of this source"},
			{Name: "type", Usage: "only events of this type"},
			{Name: "object", Usage: "only events about this object of the provider: an invoice (also by number), a subscription, a customer, ..."},
			{Name: "account", Usage: "only events of this account"},
			{Name: "outage", Usage: "only events that waited in the outage with this `number`; see pawl outages list"},
			{Name: "since", Usage: "only events received since this `time`: " + TimeUsage, Kind: Time},
			{Name: "until", Usage: "only events received before this `time`", Kind: Time},
		},
		Drops: []string{"DUPLICATES", "SOURCE", "AMOUNT", "ACCOUNT", "TYPE", "RECEIVED"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]timeline.Receipt, error) {
		f := event.FilterOf(q.values)
		f.Since, f.Until, f.OlderThan, f.Limit = q.time("since"), q.time("until"), q.Cursor, q.Limit
		if _, err := uuid.Parse(q.Cursor); q.Cursor != "" && err != nil {
			return nil, noCursor()
		}
		return event.List(ctx, e.Operator.DB, f)
	},
	cursor: func(r timeline.Receipt) string { return r.ID },
	table:  tables.Receipts,
}

var accounts = &list[account.Listed]{
	Description: Description{
		Name: "accounts", Title: "Accounts", Command: "accounts list", Path: "/accounts",
		Short: "List the accounts with their plan, status and access",
		Long: `List the accounts with their plan and features, the status of each subscription that has not ended, and the time when
access ends or is expected to end.`,
		Empty: "No account passes these filters. Accounts appear with their first billing event, or by pawl import.",
		Right: role.RightRead, Paged: true,
		Filters: []Filter{
			mode("accounts"),
			{Name: "access", Usage: "only accounts with this `access`: active, suspended, none (never granted)",
				Values: []string{"active", "suspended", "none"}},
			{Name: "plan", Usage: "only accounts on this `plan`"},
			{Name: "status", Usage: "only accounts with a subscription of this `status`, for example past_due"},
			{Name: "until_before", Usage: "only accounts with access that ends before this `time`", Kind: Time},
		},
		Drops: []string{"CUSTOMER", "VERSION", "MODE"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]account.Listed, error) {
		f := account.Filter{Mode: q.Text("mode"), Access: q.Text("access"), Plan: q.Text("plan"),
			Status: q.Text("status"), Before: q.time("until_before"), Limit: q.Limit}
		if q.Cursor != "" {
			var found bool
			if f.After.Mode, f.After.ID, found = strings.Cut(q.Cursor, "/"); !found {
				return nil, noCursor()
			}
		}
		return account.List(ctx, e.Operator.DB, f)
	},
	cursor: func(l account.Listed) string { return l.Mode + "/" + l.ID },
	table:  tables.Accounts,
}

var tasks = &list[account.Task]{
	Description: Description{
		Name: "tasks", Title: "Tasks", Command: "tasks list", Path: "/tasks",
		Short: "List the open tasks: next due first, then oldest first",
		Empty: "No task is open: pawl needs no person.", Right: role.RightRead, Paged: true,
		Filters: []Filter{
			mode("tasks"),
			{Name: "kind", Usage: "only tasks of this `kind`"},
			{Name: "about", Usage: "only tasks about the price or connected account with this `ID`"},
			{Name: "account", Usage: "only tasks of this account"},
		},
		Drops: []string{"SINCE", "MODE", "EVENT", "ACCOUNT"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]account.Task, error) {
		f := account.TaskFilter{Mode: q.Text("mode"), Kind: q.Text("kind"), About: q.Text("about"),
			Account: q.Text("account"), Limit: q.Limit}
		if q.Cursor != "" {
			parts := strings.SplitN(q.Cursor, "/", 3)
			if len(parts) != 3 {
				return nil, noCursor()
			}
			f.After = account.Task{Mode: parts[0], Kind: parts[1], Object: parts[2]}
		}
		return account.OpenTasks(ctx, e.Operator.DB, f)
	},
	cursor: func(t account.Task) string { return t.Mode + "/" + t.Kind + "/" + t.Object },
	table:  tables.Tasks,
}

var unassigned = &list[billing.Money]{
	Description: Description{
		Name: "unassigned-payments", Title: "Payments", Command: "payments unassigned", Path: "/payments/unassigned",
		Short: "List money that is not booked because its account is unknown, oldest first",
		Long: `List payments, refunds, disputes, credit notes and checkout sessions that are not booked because their account or the
purchase is unknown. pawl payments assign assigns an object to an account. An assigned object leaves the list, so the
list has no cursor.`,
		Empty: "All known money has an account.", Right: role.RightRead, Paged: true,
		Filters: []Filter{mode("money")},
	},
	read: func(ctx context.Context, e Env, q Query) ([]billing.Money, error) {
		return billing.New(e.Operator.DB).ListUnassigned(ctx, q.Text("mode"), 0, q.Limit)
	},
	table: tables.Unassigned,
}

var approvals = &list[pending.Decision]{
	Description: Description{
		Name: "approvals", Title: "Approvals", Command: "approvals list", Path: "/approvals",
		Short: "List the decisions that wait for a second person, oldest first",
		Empty: "No decision waits for a second person.", Right: role.RightRead, Renews: true,
	},
	read: func(ctx context.Context, e Env, _ Query) ([]pending.Decision, error) {
		return pending.List(ctx, e.Operator.DB)
	},
	table: tables.Pending,
}

var jobs = &list[job.Job]{
	Description: Description{
		Name: "jobs", Title: "Jobs", Command: "jobs list", Path: "/jobs",
		Short: "List the bulk jobs, newest first",
		Empty: "There are no jobs. To decide about many events at once, open their list: Events, with a status.",
		Right: role.RightRead, Paged: true, Drops: []string{"MADE", "ACTOR", "REFUSED", "FAILED"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]job.Job, error) {
		return job.New(e.Operator.DB).List(ctx, q.Limit, q.Cursor)
	},
	cursor: func(j job.Job) string { return j.ID },
	table:  tables.Jobs,
}

var effects = &list[ledger.Listed]{
	Description: Description{
		Name: "effects", Title: "Effects", Command: "effects list", Path: "/effects",
		Short: "List the effects, ordered by key",
		Empty: "No effect passes these filters.", Right: role.RightRead, Paged: true,
		Filters: []Filter{
			{Name: "prefix", Usage: "only effects with a key that begins with this `text`, such as receipt-email:"},
			{Name: "state", Usage: "only effects that are not done, in this `state`",
				Values: []string{"claimed", "failed", "uncertain"}},
		},
		Drops: []string{"BEGUN", "ATTEMPTS", "KIND"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]ledger.Listed, error) {
		return ledger.List(ctx, e.Operator.DB, ledger.Filter{Prefix: q.Text("prefix"), Open: q.Text("state"),
			After: q.Cursor, Limit: q.Limit})
	},
	cursor: func(l ledger.Listed) string { return l.Key },
	table:  tables.Ledger,
}

var rejected = &list[rejections.Shown]{
	Description: Description{
		Name: "rejections", Title: "Rejections", Command: "rejections list", Path: "/rejections",
		Short: "List refused requests, newest first",
		Empty: "No request was refused.", Right: role.RightRead, Paged: true,
		Filters: []Filter{{Name: "source", Usage: "only requests to this source"}},
		Drops:   []string{"FROM", "ADMITTED", "CLASS", "RECEIVED"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]rejections.Shown, error) {
		return rejections.List(ctx, e.Operator, rejection.Filter{Source: q.Text("source"), Limit: q.Limit})
	},
	table: tables.Rejections,
}

var sinks = &list[report.Sink]{
	Description: Description{
		Name: "sinks", Title: "Sinks", Command: "sinks", Path: "/sinks",
		Short: "Show the sinks and destinations with their state",
		Long: `Show the sinks and destinations and whether they are down or paused.
The breaker of a sink opens after several equal failures in a row, or after one answer 401 or 403. The sink is then down: its effects
wait until it answers a probe. pawl sinks pause pauses a sink until pawl sinks resume.`,
		Empty: "No sink is configured.", Right: role.RightRead, Renews: true,
		Drops: []string{"MAX CONCURRENCY", "PROBES", "SINCE"},
	},
	read: func(ctx context.Context, e Env, _ Query) ([]report.Sink, error) {
		return report.TimedSinks(ctx, e.Config, e.Operator.DB)
	},
	table: tables.Sinks,
}

var sources = &list[report.Source]{
	Description: Description{
		Name: "sources", Title: "Sources", Command: "sources", Path: "/sources",
		Short: "Show the sources and the use of their secrets",
		Long: `Show the sources, when the secret of each was last used, and whether the source is paused. The command reports which
secret can be removed. pawl sources pause pauses a source until pawl sources resume.`,
		Empty: "No source is configured.", Right: role.RightRead, Renews: true,
		Filters: []Filter{{Name: "unused_for", Usage: "a secret can be removed if it was not used for this `duration` while another one was used (default 168h)", Kind: Duration}},
		Drops:   []string{"PROVIDER", "USES", "EVENTS", "LAST USED", "MODE"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]report.Source, error) {
		unused := report.UnusedFor
		if given := q.duration("unused_for"); given > 0 {
			unused = given
		}
		return report.ReadSources(ctx, e.Config, e.Operator.DB, unused)
	},
	table: tables.Sources,
}

var rules = &list[billing.RulesVersion]{
	Description: Description{
		Name: "rules", Title: "Rules", Command: "rules show", Path: "/rules",
		Short: "Show the active, the earlier and the proposed billing rules",
		Long: `Show the active billing rules: the plans, prices, account mapping and policy that every process applies, even if its
configuration file differs. The list also has the earlier rules, with the person who replaced them and the reason, and the
rules that processes propose because their configuration files differ.`,
		Empty: "No process has proposed billing rules yet.", Right: role.RightRead,
	},
	read: func(ctx context.Context, e Env, _ Query) ([]billing.RulesVersion, error) {
		return billing.RulesVersions(ctx, e.Operator.DB)
	},
	table: tables.RulesVersions,
}

var trail = &list[audit.Row]{
	Description: Description{
		Name: "audit", Title: "Audit", Command: "audit list", Path: "/audit",
		Short: "List the actions of operators, newest first",
		Long: `List the actions of operators, newest first, with time, person, action, target and reason. With --json each action also
has the state that the operator saw, the result that the preview announced, and the head of the trail after the action.

Gaps between the numbers are normal: two actions at the same time, or a repeated request, use up a number.`,
		Empty: "There are no actions.", Right: role.RightRead, Paged: true,
		Filters: []Filter{
			{Name: "target", Usage: "only actions on this event, job, refused request or object (`ID`)"},
			{Name: "actor", Usage: "only actions of this `person`"},
			{Name: "action", Usage: "only this `action`, such as retry"},
			{Name: "since", Usage: "only actions since this `time`: " + TimeUsage, Kind: Time},
		},
		Drops: []string{"ACTOR", "TIME"},
	},
	read: func(ctx context.Context, e Env, q Query) ([]audit.Row, error) {
		f := audit.Filter{Target: q.Text("target"), Actor: q.Text("actor"), Action: q.Text("action"),
			Since: q.time("since"), Limit: q.Limit}
		if q.Cursor != "" {
			var err error
			if f.OlderThan, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil || f.OlderThan < 1 {
				return nil, noCursor()
			}
		}
		return e.Operator.Audit.List(ctx, f)
	},
	cursor: func(r audit.Row) string { return strconv.FormatInt(r.ID, 10) },
	table:  tables.Audit,
}

var tokens = &list[token.Token]{
	Description: Description{
		Name: "tokens", Title: "Tokens", Command: "tokens list", Path: "/tokens",
		Short: "List the tokens without their secrets",
		Empty: "No program has a token yet.", Right: role.RightAdmin, Drops: []string{"BY", "MADE"},
	},
	read: func(ctx context.Context, e Env, _ Query) ([]token.Token, error) {
		return token.List(ctx, e.Operator.DB)
	},
	table: tables.Tokens,
}
