package tables

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/money"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/token"
)

// Amount formats an amount of money. It returns "" for nil.
func Amount(of *int64, currency string) string {
	if of == nil {
		return ""
	}
	return money.Format(*of, currency)
}

// Because formats a reason to be shown after a status. If the reason starts with the status, it removes the status.
func Because(status, reason string) string {
	return output.Because(strings.TrimPrefix(reason, status+": "))
}

func empty(s string) bool { return s == "" }

// Tasks lists tasks.
func Tasks(tasks []account.Task) [][]string {
	return output.Rows("OPEN TASK|OBJECT|ACCOUNT|MODE|AMOUNT|SINCE|DUE BY|EVENT|TAKEN BY|TITLE", tasks,
		func(t account.Task) []any {
			return []any{t.Kind, t.Object, t.Account, t.Mode, amountOf(t), t.Since, t.DueBy, t.Event, t.TakenBy,
				t.Title}
		})
}

// amountOf returns the amount of a task, or "" if the task is not about money.
func amountOf(t account.Task) string {
	if t.Currency == "" {
		return ""
	}
	return money.Format(t.Amount, t.Currency)
}

// Unassigned lists money that is not booked.
func Unassigned(found []billing.Money) [][]string {
	return output.Rows("SINCE|MODE|KIND|ID|AMOUNT|CUSTOMER|WHY", found, func(m billing.Money) []any {
		return []any{&m.Since, m.Mode, m.Kind, m.ID, money.Format(m.Amount, m.Currency), m.Customer, m.Why()}
	})
}

// Pending lists decisions that wait for a second person.
func Pending(waiting []pending.Decision) [][]string {
	return output.Rows("WAITS FOR A SECOND PERSON|OF|MONEY|ASKED BY|WHY|UNTIL|PENDING", waiting,
		func(p pending.Decision) []any {
			return []any{p.Does(), p.Target, decide.Sums(p.Money), p.AskedBy, p.Why, p.Until, p.ID}
		})
}

// Jobs lists bulk jobs.
func Jobs(jobs []job.Job) [][]string {
	return output.Rows("JOB|ACTION|STATE|ITEMS|DONE|REFUSED|FAILED|LEFT|MADE|WHO|WHY", jobs, func(j job.Job) []any {
		return []any{j.ID, j.Action, j.State, j.Items, j.Done, j.Refused, j.Failed, j.Left(), j.CreatedAt, j.Who, j.Why}
	})
}

// Sinks lists sinks and destinations with their state.
func Sinks(sinks []report.Sink) [][]string {
	return output.Rows("SINK|STATE|SINCE|WAITING|PROBES|MAX CONCURRENCY|WHY", sinks, func(r report.Sink) []any {
		since := "-"
		if r.Since != nil {
			since = r.Since.UTC().Format(time.RFC3339)
		}
		return []any{r.Name, r.State, since, r.Waiting, r.Probes, r.MaxConcurrency, r.Reason}
	})
}

// Took lists the duration of calls by sink. It omits sinks without recent calls.
func Took(sinks []report.Sink) [][]string {
	called := slices.DeleteFunc(slices.Clone(sinks), func(r report.Sink) bool { return r.Median == nil })
	return output.Rows("SINK|HALF WITHIN|19 OF 20 WITHIN", called, func(r report.Sink) []any {
		return []any{r.Name, output.Seconds(*r.Median), output.Seconds(*r.Most)}
	})
}

// Receipts lists events.
func Receipts(receipts []timeline.Receipt) [][]string {
	return output.Rows("RECEIVED|STATUS|SOURCE|TYPE|ACCOUNT|AMOUNT|EVENT|DUPLICATES|REASON", receipts,
		func(r timeline.Receipt) []any {
			return []any{r.ReceivedAt, r.Status, r.Source, r.Type, r.OurAccount, Amount(r.Amount, r.Currency),
				r.EventID, r.Duplicates, r.Open()}
		})
}

// Accounts lists accounts.
func Accounts(accounts []account.Listed) [][]string {
	return output.Rows("ACCOUNT|MODE|ACCESS|USES|STATUS|UNTIL|VERSION|CUSTOMER|NOTE", accounts,
		func(l account.Listed) []any {
			var notes []string
			if l.Held {
				notes = append(notes, "held back")
			}
			if l.Workspace < l.Version {
				notes = append(notes, "its workspace is not updated yet")
			}
			return []any{l.ID, l.Mode, l.Access, plan(l.Plan, l.Quantity), strings.Join(l.Statuses, ", "),
				l.Until, l.Version, l.Customer, strings.Join(notes, "; ")}
		})
}

// Job returns a job as two tables: its progress, and its items.
func Job(d *jobs.Details) [][][]string {
	state := cmp.Or(d.StateNote, string(d.State))
	filter := make([]string, 0, len(d.Filter))
	for _, name := range slices.Sorted(maps.Keys(d.Filter)) {
		filter = append(filter, "--"+name+" "+decide.ShellWord(d.Filter[name]))
	}
	does := d.Action
	if d.Effect != "" {
		does += " of " + d.Effect
	}
	if d.Reference != "" {
		does += ", as " + d.Reference
	}
	by := d.Who
	if d.AskedBy != "" {
		by = d.AskedBy + ", then by " + d.Who
	}
	head := [][]string{
		{"job", d.ID},
		{"does", does + ", of " + d.Noun() + "s with " + strings.Join(filter, " ")},
		{"asked for", "by " + by + " at " + output.Time(d.CreatedAt) + output.Because(d.Why)},
		{"state", state},
		{d.Noun() + "s", strconv.Itoa(d.Items) + InBrackets(decide.Sums(d.Money)) +
			", at " + fmt.Sprint(d.Rate) + " a second"},
		{"results", fmt.Sprintf("%d done, %d refused, %d failed, %d left%s", d.Done, d.Refused, d.Failed, d.Left(),
			Takes(d.Job))},
	}
	for i, s := range d.Events {
		name := ""
		if i == 0 {
			name = map[bool]string{true: "came to", false: "now are"}[d.Action == job.Reconcile]
		}
		head = append(head, []string{name, strconv.Itoa(s.Events) + " " + s.Status + output.Because(s.ReasonCode)})
	}
	items := output.Rows(strings.ToUpper(d.Noun())+"|RESULT|AT|NOTE", d.List, func(i job.Item) []any {
		at := ""
		if i.EndedAt != nil {
			at = output.Time(*i.EndedAt)
		}
		return []any{i.Name, cmp.Or(i.Result, "open"), at, i.Note}
	})
	return [][][]string{head, items}
}

// Takes estimates the remaining time of a running job. It returns "" for any other job.
func Takes(j *job.Job) string {
	if j.State != job.Running || j.Left() == 0 {
		return ""
	}
	return ", about " + output.Roughly(time.Duration(float64(j.Left())/j.Rate*float64(time.Second)))
}

// InBrackets returns s in parentheses after a space, or "" if s is empty.
func InBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// Sources lists the sources with their secrets.
func Sources(reports []report.Source) [][]string {
	rows := [][]string{{"SOURCE", "PROVIDER", "MODE", "URL", "EVENTS", "SECRET", "USES", "LAST USED", "VERDICT"}}
	for _, r := range reports {
		events := cmp.Or(strings.Join(r.Events, ","), "(all with a flow)")
		if len(r.Destinations) > 0 {
			events = cmp.Or(strings.Join(r.Events, ","), "(all)") + " → " + strings.Join(r.Destinations, ",")
		}
		head := []string{r.Name, r.Provider, cmp.Or(r.Mode, "both"), cmp.Or(r.URL, r.Path), events}
		if len(r.Secrets) == 0 {
			rows = append(rows, append(slices.Clone(head), "(none yet)", "", "", ""))
		}
		for _, s := range r.Secrets {
			last := ""
			if s.LastUsed != nil {
				last = output.Time(*s.LastUsed)
			}
			rows = append(rows, append(slices.Clone(head), s.Label, strconv.FormatInt(s.Uses, 10), last, s.Verdict))
			head = []string{"", "", "", "", ""}
		}
	}
	return rows
}

// Traffic lists the recent traffic of each source, and when its last secret expires.
func Traffic(reports []report.Source) [][]string {
	return output.Rows("SOURCE|A MINUTE|IN 24 HOURS|REFUSED SINCE YESTERDAY|WAITING|LAST SECRET ENDS|NOTE", reports,
		func(r report.Source) []any {
			var refused []string
			for _, class := range slices.Sorted(maps.Keys(r.Refused)) {
				refused = append(refused, fmt.Sprintf("%s: %d", class, r.Refused[class]))
			}
			return []any{r.Name, fmt.Sprintf("%.1f", float64(r.LastHour)/60), r.LastDay, strings.Join(refused, ", "),
				r.Waiting, r.Ends, cmp.Or(r.Paused, r.Silent)}
		})
}

// RulesVersions lists the versions of the billing rules.
func RulesVersions(known []billing.RulesVersion) [][]string {
	return output.Rows("RULES|STATE|SINCE|WHO|WHY|LAST PROPOSED|BY", known, func(v billing.RulesVersion) []any {
		state := "proposed"
		switch {
		case v.Active:
			state = "active"
		case v.Since != nil:
			state = "replaced"
		}
		return []any{v.Hash, state, v.Since, v.Who, v.Why, v.ProposedAt, v.ProposedBy}
	})
}

// Audit lists the actions of operators.
func Audit(found []audit.Row) [][]string {
	return output.Rows("NUMBER|TIME|WHO|IDENTITY|ACTION|TARGET|WHY", found, func(r audit.Row) []any {
		return []any{r.ID, r.At, r.Actor, strings.TrimSpace(r.Issuer + " " + r.Subject), r.Action, r.Target, r.Reason}
	})
}

// TaskHead returns the fields of a task.
func TaskHead(t task.Shown) [][]string {
	head := [][]string{{"task", t.Kind + " of " + t.Object + " (" + t.Mode + ")"}, {"state", t.State},
		{"title", t.Title}}
	for _, row := range [][]string{{"account", t.Account}, {"amount", amountOf(t.Task)},
		{"due by", output.Date(t.DueBy)}, {"taken by", t.TakenBy}, {"event", t.Event}} {
		if row[1] != "" {
			head = append(head, row)
		}
	}
	head = append(head, []string{"since", output.Time(t.Since)})
	return head
}

// TaskActions lists the actions of people on a task.
func TaskActions(t task.Shown) [][]string {
	return output.Rows("AT|WHO|WHAT|WHY", t.Actions, func(done audit.Row) []any {
		return []any{done.At, done.Actor, done.Action, done.Reason}
	})
}

// Tokens lists the tokens of programs.
func Tokens(tokens []token.Token) [][]string {
	return output.Rows("TOKEN|ROLE|STATE|EXPIRES|LAST USED|NETWORKS|MADE|BY", tokens, func(t token.Token) []any {
		state, used := "accepted", "never"
		switch {
		case t.RevokedAt != nil:
			state = "revoked"
		case t.Ended(time.Now()):
			state = "expired"
		}
		if t.UsedAt != nil {
			used = output.Time(*t.UsedAt)
		}
		var from []string
		for _, n := range t.Networks {
			from = append(from, n.String())
		}
		return []any{t.Name, t.Role, state, t.ExpiresAt, used, strings.Join(from, ", "), t.MadeAt, t.MadeBy}
	})
}
