package tables

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/look"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/token"
)

// AmountOf is the money that an event is about, "" for none.
func AmountOf(r timeline.Receipt) string {
	return Amount(r.Amount, r.Currency)
}

// Amount is money in a table, "" for none.
func Amount(of *int64, currency string) string {
	if of == nil {
		return ""
	}
	return stripe.Money(*of, currency)
}

// Because is because of a reason that may begin with the status that it is the reason of.
func Because(status, reason string) string {
	return output.Because(strings.TrimPrefix(reason, status+": "))
}

func empty(s string) bool { return s == "" }

// Tasks are people's tasks in a list.
func Tasks(tasks []account.Task) [][]string {
	rows := [][]string{
		{"OPEN TASK", "OBJECT", "ACCOUNT", "MODE", "SINCE", "DUE BY", "EVENT", "TAKEN BY", "TITLE"},
	}
	for _, t := range tasks {
		rows = append(rows, []string{t.Kind, t.Object, t.Account, t.Mode, output.Time(t.Since), output.Date(t.DueBy),
			t.Event, t.TakenBy, t.Title})
	}
	return rows
}

// Pending are the decisions that wait for a second person.
func Pending(waiting []pending.Decision) [][]string {
	rows := [][]string{{"WAITS FOR A SECOND PERSON", "OF", "MONEY", "ASKED BY", "WHY", "UNTIL", "PENDING"}}
	for _, p := range waiting {
		rows = append(rows, []string{p.Does(), p.Target, operator.Sums(p.Money), p.AskedBy, p.Why, output.Time(p.Until),
			p.ID})
	}
	return rows
}

// Jobs are bulk jobs in a list.
func Jobs(jobs []job.Job) [][]string {
	rows := [][]string{{"JOB", "ACTION", "STATE", "ITEMS", "DONE", "REFUSED", "FAILED", "LEFT", "MADE", "WHO", "WHY"}}
	for i := range jobs {
		j := &jobs[i]
		rows = append(rows, []string{j.ID, j.Action, string(j.State), strconv.Itoa(j.Items), strconv.Itoa(j.Done),
			strconv.Itoa(j.Refused),
			strconv.Itoa(j.Failed), strconv.Itoa(j.Left()), output.Time(j.CreatedAt), j.Who, j.Why})
	}
	return rows
}

// Sinks are sinks and consumers, as they stand.
func Sinks(sinks []report.Sink) [][]string {
	rows := [][]string{{"SINK", "STATE", "SINCE", "WAITING", "PROBES", "PLACES", "WHY"}}
	for _, r := range sinks {
		since := "-"
		if r.Since != nil {
			since = r.Since.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{r.Name, r.State, since, strconv.Itoa(r.Waiting), strconv.Itoa(r.Probes),
			strconv.Itoa(r.Places), r.Reason})
	}
	return rows
}

// Took is how long the calls of each sink took, without those that had none of late.
func Took(sinks []report.Sink) [][]string {
	rows := [][]string{{"SINK", "HALF WITHIN", "19 OF 20 WITHIN"}}
	for _, r := range sinks {
		if r.Median != nil {
			rows = append(rows, []string{r.Name, output.Seconds(*r.Median), output.Seconds(*r.Most)})
		}
	}
	return rows
}

// Notices are what people are told.
func Notices(notices []notice.Notice, now time.Time) [][]string {
	rows := [][]string{{"PEOPLE ARE TOLD", "SEVERITY", "FOR", "LAST TOLD"}}
	for _, n := range notices {
		told := "waits for the end of quiet hours"
		if n.Told != nil {
			told = output.Age(*n.Told, now) + " ago"
		}
		rows = append(rows, []string{output.Clean(n.What), string(n.Severity), output.Age(n.Since, now), told})
	}
	return rows
}

// Receipts are events in a list.
func Receipts(receipts []timeline.Receipt) [][]string {
	rows := [][]string{{"RECEIVED", "STATUS", "SOURCE", "TYPE", "ACCOUNT", "AMOUNT", "EVENT", "DUPLICATES", "REASON"}}
	for _, r := range receipts {
		rows = append(rows, []string{output.Time(r.ReceivedAt), r.Status, r.Source, r.Type, r.OurAccount, AmountOf(r),
			r.EventID, strconv.Itoa(r.Duplicates), r.Reason})
	}
	return rows
}

// Accounts are accounts in a list.
func Accounts(accounts []account.Listed) [][]string {
	rows := [][]string{{"ACCOUNT", "MODE", "ACCESS", "USES", "STATUS", "UNTIL", "VERSION", "CUSTOMER", "NOTE"}}
	for _, l := range accounts {
		var notes []string
		if l.Held {
			notes = append(notes, "held back")
		}
		if l.Workspace < l.Version {
			notes = append(notes, "its workspace has not followed yet")
		}
		rows = append(rows, []string{l.ID, l.Mode, l.Access, Plan(l.Plan, l.Quantity), strings.Join(l.Statuses, ", "),
			output.Date(l.Until), strconv.FormatInt(l.Version, 10), l.Customer, strings.Join(notes, "; ")})
	}
	return rows
}

// Job is a job with what came of it: its head, and its items.
func Job(d *operator.JobDetails) [][][]string {
	state := cmp.Or(d.StateNote, string(d.State))
	filter := make([]string, 0, len(d.Filter))
	for _, name := range slices.Sorted(maps.Keys(d.Filter)) {
		filter = append(filter, "--"+name+" "+operator.ShellWord(d.Filter[name]))
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
		{d.Noun() + "s", strconv.Itoa(d.Items) + InBrackets(operator.Sums(d.Money)) +
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
	items := [][]string{{strings.ToUpper(d.Noun()), "RESULT", "AT", "NOTE"}}
	for _, i := range d.List {
		result, at := string(i.Result), ""
		if i.Result == job.Open {
			result = "open"
		}
		if i.EndedAt != nil {
			at = output.Time(*i.EndedAt)
		}
		items = append(items, []string{i.Name, result, at, i.Note})
	}
	return [][][]string{head, items}
}

// Takes says how long a job will take that has work left, "" for any other.
func Takes(j *job.Job) string {
	if j.State != job.Running || j.Left() == 0 {
		return ""
	}
	return ", about " + output.Roughly(time.Duration(float64(j.Left())/j.Rate*float64(time.Second)))
}

// InBrackets puts words in brackets behind others; "" for none.
func InBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// Sources are the sources with their secrets.
func Sources(reports []report.Source) [][]string {
	rows := [][]string{{"SOURCE", "PROVIDER", "MODE", "URL", "EVENTS", "SECRET", "USES", "LAST USED", "VERDICT"}}
	for _, r := range reports {
		url, events, mode := r.URL, strings.Join(r.Events, ","), r.Mode
		if url == "" {
			url = r.Path
		}
		if events == "" {
			events = "(all with a flow)"
			if len(r.Relay) > 0 {
				events = "(all)"
			}
		}
		if len(r.Relay) > 0 {
			events += " → " + strings.Join(r.Relay, ",")
		}
		if mode == "" {
			mode = "both"
		}
		head := []string{r.Name, r.Provider, mode, url, events}
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

// Traffic is how much came to each source of late, and when its last secret ends.
func Traffic(reports []report.Source) [][]string {
	rows := [][]string{{"SOURCE", "A MINUTE", "IN 24 HOURS", "REFUSED SINCE YESTERDAY", "WAITING",
		"LAST SECRET ENDS", "NOTE"}}
	for _, r := range reports {
		var refused []string
		for _, class := range slices.Sorted(maps.Keys(r.Refused)) {
			refused = append(refused, fmt.Sprintf("%s: %d", class, r.Refused[class]))
		}
		note := r.Silent
		if r.Paused != "" {
			note = r.Paused
		}
		rows = append(rows, []string{r.Name, strconv.FormatFloat(float64(r.LastHour)/60, 'f', 1, 64),
			strconv.FormatInt(r.LastDay, 10), strings.Join(refused, ", "), strconv.Itoa(r.Waiting),
			output.Date(r.Ends), note})
	}
	return rows
}

// Audit is what operators did.
func Audit(found []audit.Row) [][]string {
	rows := [][]string{{"NUMBER", "TIME", "WHO", "ACTION", "TARGET", "WHY"}}
	for _, r := range found {
		rows = append(rows, []string{strconv.FormatInt(r.ID, 10), output.Time(r.At), r.Actor, r.Action, r.Target,
			r.Reason})
	}
	return rows
}

// Looks is who was shown what came in.
func Looks(found []look.Row) [][]string {
	rows := [][]string{{"TIME", "WHO", "WHY", "EVENT"}}
	for _, l := range found {
		rows = append(rows, []string{output.Time(l.At), cmp.Or(l.Who, "the command line"), l.Why,
			cmp.Or(l.EventID, "refused request "+l.What)})
	}
	return rows
}

// TaskHead is a task.
func TaskHead(t operator.ShownTask) [][]string {
	head := [][]string{{"task", t.Kind + " of " + t.Object + " (" + t.Mode + ")"}, {"state", t.State},
		{"title", t.Title}}
	for _, row := range [][]string{{"account", t.Account}, {"due by", output.Date(t.DueBy)},
		{"taken by", t.TakenBy}, {"event", t.Event}} {
		if row[1] != "" {
			head = append(head, row)
		}
	}
	head = append(head, []string{"since", output.Time(t.Since)})
	return head
}

// TaskActions is what people did about a task.
func TaskActions(t operator.ShownTask) [][]string {
	actions := [][]string{{"AT", "WHO", "WHAT", "WHY"}}
	for _, done := range t.Actions {
		actions = append(actions, []string{output.Time(done.At), done.Actor, done.Action, done.Reason})
	}
	return actions
}

// Tokens are the tokens of programs.
func Tokens(tokens []token.Token) [][]string {
	rows := [][]string{{"TOKEN", "ROLE", "STATE", "EXPIRES", "LAST USED", "NETWORKS", "MADE", "BY"}}
	for _, t := range tokens {
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
		rows = append(rows, []string{t.Name, t.Role, state, output.Date(t.ExpiresAt), used,
			strings.Join(from, ", "), output.Time(t.MadeAt), t.MadeBy})
	}
	return rows
}
