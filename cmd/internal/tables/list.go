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
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/ledger"
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

// WithReason formats a reason to be shown after a status. If the reason starts with the status, it removes the status.
func WithReason(status, reason string) string {
	return output.WithReason(strings.TrimPrefix(reason, status+": "))
}

func empty(s string) bool { return s == "" }

func eventLink(id string) any { return output.Link{To: output.Event, ID: id} }

func objectLink(id string) any { return output.Link{To: output.Object, ID: id} }

func accountLink(id, mode string) any { return output.Link{To: output.Account, ID: id, Mode: mode} }

// Tasks lists tasks.
func Tasks(tasks []account.Task) output.Table {
	return output.Rows("OPEN TASK|OBJECT|ACCOUNT|MODE|AMOUNT|SINCE|DUE BY|EVENT|TAKEN BY|TITLE", tasks,
		func(t account.Task) []any {
			return []any{t.Kind, output.Link{To: output.Task, ID: t.Object}, accountLink(t.Account, t.Mode),
				output.Badge(t.Mode), amountOf(t), t.Since, t.DueBy, eventLink(t.Event), t.TakenBy, t.Title}
		})
}

// amountOf returns the amount of a task. It is empty if the task is not about money.
func amountOf(t account.Task) (amount output.Money) {
	if t.Currency != "" {
		amount = moneyOf(t.Amount, t.Currency)
	}
	return amount
}

// Unassigned lists money that is not booked.
func Unassigned(found []billing.Money) output.Table {
	return output.Rows("SINCE|MODE|KIND|ID|AMOUNT|CUSTOMER|REASON", found, func(m billing.Money) []any {
		return []any{&m.Since, output.Badge(m.Mode), m.Kind, objectLink(m.ID), moneyOf(m.Amount, m.Currency),
			objectLink(m.Customer), m.Reason()}
	})
}

// Pending lists decisions that wait for a second person.
func Pending(waiting []pending.Decision) output.Table {
	return output.Rows("WAITS FOR A SECOND PERSON|OF|ACCOUNT|MONEY|ASKED BY|REASON|UNTIL|PENDING", waiting,
		func(p pending.Decision) []any {
			target := any(p.Target)
			if p.Receipt != "" {
				target = eventLink(p.Target)
			}
			return []any{PendingVerb(p), target, pendingAccount(p), decide.Sums(p.Money), p.AskedBy, p.Reason, p.Until,
				p.ID}
		})
}

// PendingVerb returns the verb of a waiting decision in words, with the step that it is about.
func PendingVerb(p pending.Decision) string {
	if kind, _, _ := strings.Cut(p.Args["effect"], ":"); kind != "" {
		return label.Step(p.Action(), kind)
	}
	return label.Verb(p.Action())
}

// pendingAccount returns the account that a waiting decision is about, or "". Only decisions about live money need two
// people, so the account is in live mode.
func pendingAccount(p pending.Decision) any {
	account := cmp.Or(p.Account, p.Args["account"])
	if strings.HasSuffix(p.Verb, "-account") {
		account = p.Target
	}
	return accountLink(account, cmp.Or(p.Args["mode"], decide.Live))
}

// Jobs lists bulk jobs.
func Jobs(jobs []job.Job) output.Table {
	return output.Rows("JOB|ACTION|STATE|ITEMS|DONE|REFUSED|FAILED|LEFT|MADE|ACTOR|REASON", jobs,
		func(j job.Job) []any {
			return []any{output.Link{To: output.Job, ID: j.ID}, j.Action, output.Badge(j.State), j.Items, j.Done,
				j.Refused,
				j.Failed, j.Left(), j.CreatedAt, j.Actor, j.Reason}
		})
}

// Sinks lists sinks and destinations with their state.
func Sinks(sinks []report.Sink) output.Table {
	return output.Rows("SINK|STATE|SINCE|WAITING|PROBES|MAX CONCURRENCY|REASON", sinks, func(r report.Sink) []any {
		var since any = "-"
		if r.Since != nil {
			since = r.Since
		}
		return []any{r.Name, output.Badge(r.State), since, r.Waiting, r.Probes, r.MaxConcurrency, r.Reason}
	})
}

// Took lists the duration of calls by sink. It omits sinks without recent calls.
func Took(sinks []report.Sink) output.Table {
	called := slices.DeleteFunc(slices.Clone(sinks), func(r report.Sink) bool { return r.Median == nil })
	return output.Rows("SINK|HALF WITHIN|19 OF 20 WITHIN", called, func(r report.Sink) []any {
		return []any{r.Name, output.Seconds(*r.Median), output.Seconds(*r.Most)}
	})
}

// billed lists the providers of events about accounts of billing. An account of a flow for another provider has no
// page.
var billed = []string{"stripe", "pawl"}

// Receipts lists events.
func Receipts(receipts []timeline.Receipt) output.Table {
	return output.Rows("RECEIVED|STATUS|SOURCE|TYPE|ACCOUNT|AMOUNT|EVENT|DUPLICATES|REASON", receipts,
		func(r timeline.Receipt) []any {
			var amount output.Money
			if r.Amount != nil {
				amount = moneyOf(*r.Amount, r.Currency)
			}
			of := any(r.OurAccount)
			if slices.Contains(billed, r.Provider) {
				of = accountLink(r.OurAccount, r.Mode)
			}
			return []any{r.ReceivedAt, output.Badge(r.Status), r.Source, r.Type, of, amount, eventLink(r.EventID),
				r.Duplicates, r.Open()}
		})
}

// Accounts lists accounts.
func Accounts(accounts []account.Listed) output.Table {
	return output.Rows("ACCOUNT|MODE|ACCESS|USES|STATUS|UNTIL|VERSION|CUSTOMER|NOTE", accounts,
		func(l account.Listed) []any {
			var notes []string
			if l.Held {
				notes = append(notes, "held back")
			}
			if l.Workspace < l.Version {
				notes = append(notes, "its workspace is not updated yet")
			}
			return []any{accountLink(l.ID, l.Mode), output.Badge(l.Mode), output.Badge(l.Access),
				plan(l.Plan, l.Quantity),
				strings.Join(l.Statuses, ", "), l.Until, l.Version, objectLink(l.Customer), strings.Join(notes, "; ")}
		})
}

// Job returns a job as two tables: its progress, and its items.
func Job(d *jobs.Details) []output.Table {
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
	by := d.Actor
	if d.AskedBy != "" {
		by = d.AskedBy + ", then by " + d.Actor
	}
	head := output.Table{
		{"job", d.ID},
		{"does", does + ", of " + d.Noun() + "s with " + strings.Join(filter, " ")},
		{"asked for", "by " + by + " at " + output.Time(d.CreatedAt) + output.WithReason(d.Reason)},
		{"state", output.Badge(state)},
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
		head = append(head, []any{name, strconv.Itoa(s.Events) + " " + s.Status + output.WithReason(s.ReasonCode)})
	}
	items := output.Rows(strings.ToUpper(d.Noun())+"|RESULT|AT|NOTE", d.List, func(i job.Item) []any {
		var at any
		if i.EndedAt != nil {
			at = *i.EndedAt
		}
		name := eventLink(i.Name)
		if d.Noun() != "event" {
			name = objectLink(i.Name)
		}
		return []any{name, output.Badge(cmp.Or(i.Result, "open")), at, i.Note}
	})
	return []output.Table{head, items}
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
func Sources(reports []report.Source) output.Table {
	rows := output.Table{{"SOURCE", "PROVIDER", "MODE", "URL", "EVENTS", "SECRET", "USES", "LAST USED", "VERDICT"}}
	for _, r := range reports {
		events := cmp.Or(strings.Join(r.Events, ","), "(all with a flow)")
		if len(r.Destinations) > 0 {
			events = cmp.Or(strings.Join(r.Events, ","), "(all)") + " → " + strings.Join(r.Destinations, ",")
		}
		head := []any{r.Name, r.Provider, output.Badge(cmp.Or(r.Mode, "both")), cmp.Or(r.URL, r.Path), events}
		if len(r.Secrets) == 0 {
			rows = append(rows, append(slices.Clone(head), "(none yet)", "", "", ""))
		}
		for _, s := range r.Secrets {
			var last any
			if s.LastUsed != nil {
				last = *s.LastUsed
			}
			rows = append(rows, append(slices.Clone(head), s.Label, s.Uses, last, s.Verdict))
			head = []any{"", "", "", "", ""}
		}
	}
	return rows
}

// Traffic lists the recent traffic of each source, and when its last secret expires.
func Traffic(reports []report.Source) output.Table {
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
func RulesVersions(known []billing.RulesVersion) output.Table {
	return output.Rows("RULES|STATE|SINCE|ACTOR|REASON|LAST PROPOSED|BY", known, func(v billing.RulesVersion) []any {
		state := output.Badge("proposed")
		switch {
		case v.Active:
			state = "active"
		case v.Since != nil:
			state = "replaced"
		}
		return []any{v.Hash, state, v.Since, v.Actor, v.Reason, v.ProposedAt, v.ProposedBy}
	})
}

// Audit lists the actions of operators.
func Audit(found []audit.Row) output.Table {
	return output.Rows("NUMBER|TIME|ACTOR|IDENTITY|ACTION|TARGET|REASON", found, func(r audit.Row) []any {
		return []any{r.ID, r.At, r.Actor, strings.TrimSpace(r.Issuer + " " + r.Subject), r.Action, r.Target, r.Reason}
	})
}

// TaskHead returns the fields of a task.
func TaskHead(t task.Shown) output.Table {
	head := output.Table{{"task", t.Kind + " of " + t.Object + " (" + t.Mode + ")"}, {"state", output.Badge(t.State)},
		{"title", t.Title}}
	for _, row := range [][]any{{"account", accountLink(t.Account, t.Mode)}, {"amount", amountOf(t.Task)},
		{"due by", t.DueBy}, {"taken by", t.TakenBy}, {"event", eventLink(t.Event)}} {
		if output.Text(row[1]) != "" {
			head = append(head, row)
		}
	}
	return append(head, []any{"since", t.Since})
}

// TaskActions lists the actions of people on a task.
func TaskActions(t task.Shown) output.Table {
	return output.Rows("AT|ACTOR|WHAT|REASON", t.Actions, func(done audit.Row) []any {
		return []any{done.At, done.Actor, done.Action, done.Reason}
	})
}

// Tokens lists the tokens of programs.
func Tokens(tokens []token.Token) output.Table {
	return output.Rows("TOKEN|ROLE|STATE|EXPIRES|LAST USED|NETWORKS|MADE|BY", tokens, func(t token.Token) []any {
		state, used := output.Badge("accepted"), any("never")
		switch {
		case t.RevokedAt != nil:
			state = "revoked"
		case t.Ended(time.Now()):
			state = "expired"
		}
		if t.UsedAt != nil {
			used = *t.UsedAt
		}
		var from []string
		for _, n := range t.Networks {
			from = append(from, n.String())
		}
		return []any{t.Name, t.Role, state, t.ExpiresAt, used, strings.Join(from, ", "), t.MadeAt, t.MadeBy}
	})
}

// Ledger lists effects of the ledger.
func Ledger(effects []ledger.Listed) output.Table {
	return output.Rows("KEY|KIND|STATE|ATTEMPTS|BEGUN|EVENT|NOTE", effects, func(e ledger.Listed) []any {
		return []any{objectLink(e.Key), e.Kind, output.Badge(e.State), e.Attempts, e.ClaimedAt, eventLink(e.EventID),
			e.LastError}
	})
}

// Rejections lists refused requests.
func Rejections(found []rejection.Shown) output.Table {
	return output.Rows("RECEIVED|SOURCE|FROM|CLASS|ID|ADMITTED|DIAGNOSIS", found, func(r rejection.Shown) []any {
		admitted, why := "", r.Detail
		if r.AdmittedAt != nil {
			admitted = "yes"
		}
		if len(r.Diagnosis) > 0 {
			why = rejected.Diagnosis{Findings: r.Diagnosis}.String()
		}
		return []any{r.ReceivedAt, r.Source, r.RemoteAddr, r.Class, r.ID, admitted, why}
	})
}
