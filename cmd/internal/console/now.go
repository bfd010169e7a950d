package console

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// nowPage is the start page. It lists all current problems, in events and elsewhere, each with one action.
type nowPage struct {
	At     when
	Mode   modeSwitch
	Wrong  []wrong
	Oldest *timeline.Open
	// Failing lists the oldest failing steps of events that pawl retries.
	Failing shownTable
	// Calm lists the other parts of the status: automatic retries, sinks, and jobs.
	Calm []shownTable
}

// modeSwitch is the choice between live mode and test mode on a page.
type modeSwitch struct {
	Path string
	// Test is set if the page shows test mode. Other is the number of problems in the other mode.
	Test  bool
	Other int
}

// modeOf reads the mode of the page, and limits the status to it.
func modeOf(v *visit, r *report.Status) modeSwitch {
	m := modeSwitch{Path: v.Request().URL.Path, Test: v.FormValue("mode") == "test"}
	m.Other = r.OnlyMode(m.Test)
	return m
}

// wrong is a row of the list.
type wrong struct {
	// Badge is the class of Word, What the cause, and More the number and the amount.
	Word, Badge, What, More string
	Since                   *when
	Button                  button
	// See is the link to the subject of the row.
	See string
}

func (nowPage) renews() bool { return true }

// home shows the current problems.
func (s *Server) home(v *visit) error {
	r, err := report.ReadStatus(v.ctx(), s.Config, s.Operator)
	if err != nil {
		return err
	}
	now := time.Now()
	page := nowPage{At: when{now, now}, Mode: modeOf(v, r), Oldest: r.Oldest}
	since := func(t time.Time) *when { return &when{t, now} }
	for _, p := range r.Pending {
		page.Wrong = append(page.Wrong, wrong{Word: "Second person", Badge: "ask",
			What: tables.PendingVerb(p) + ": " + p.Target, More: requested(p), Since: since(p.AskedAt),
			Button: confirmButton(v.person, p), See: "/approvals"})
	}
	for _, c := range r.Conditions {
		if c.Kind() != condition.SecondPerson { // each decision has a row above
			page.Wrong = append(page.Wrong, newWrong(c, now))
		}
	}
	for i, row := range page.Wrong {
		if permitted(v.person, []button{row.Button})[0].Denied != "" {
			page.Wrong[i].Button = button{Label: "Open", Href: cmp.Or(row.See, "/sinks")}
		}
	}
	mode := "live"
	if page.Mode.Test {
		mode = "test"
	}
	failing, err := timeline.ReadFailing(v.ctx(), s.Operator.DB, mode, mostFailing)
	if err != nil {
		return err
	}
	page.Failing = newTable(tables.Failing(failing))
	page.calm(tables.Waiting(r.Waiting, now), func(i int) string {
		q := url.Values{"status": {r.Waiting[i].Status}}
		if r.Waiting[i].ReasonCode != "" {
			q.Set("reason_code", r.Waiting[i].ReasonCode)
		}
		return "/events?" + q.Encode()
	})
	page.calm(tables.Sinks(r.Sinks), func(int) string { return "/events?status=" + string(receipt.Retrying) })
	page.calm(tables.Jobs(r.Jobs), func(i int) string { return "/jobs/" + url.PathEscape(r.Jobs[i].ID) })
	return s.render(v, http.StatusOK, "now", "Now", page)
}

// mostFailing is the maximum number of failing steps on the page. An outage is one row of its sink.
const mostFailing = 10

// calm adds a table. Each number of a row leads to the list that it counts.
func (p *nowPage) calm(rows output.Table, href func(row int) string) {
	if len(rows) < 2 {
		return
	}
	t := newTable(rows).without("PROBES").without("MAX CONCURRENCY")
	for i, row := range t.Rows {
		for j, c := range row {
			if n, err := strconv.Atoi(c.Text); err == nil && n > 0 {
				t.Rows[i][j].Href = href(i)
			}
		}
	}
	p.Calm = append(p.Calm, t)
}

// requested returns the amount of a waiting decision, if it has one, and the person who requested it.
func requested(p pending.Decision) string {
	by := "requested by " + p.AskedBy
	if sums := decide.Sums(p.Money); sums != "" {
		return sums + ", " + by
	}
	return by
}

// requestedBy reports whether the person requested a decision.
func requestedBy(person *decide.Person, p pending.Decision) bool {
	return person.Identity == decide.Identity{Issuer: p.AskedIssuer, Subject: p.AskedSubject}
}

// confirmButton opens the page on which the second person confirms a decision. The person who requested the decision
// sees there that another person must confirm it.
func confirmButton(person *decide.Person, p pending.Decision) button {
	b := button{Label: "Check and confirm", Effect: "confirm it, as the second person", Verb: p.Action(),
		Href: pendingHref(p)}
	if requestedBy(person, p) {
		b.Label, b.Effect = "See your request", "another person must confirm it"
	}
	return b
}

// pendingHref returns the link to a decision that waits for a second person.
func pendingHref(p pending.Decision) string {
	q := url.Values{"verb": {p.Verb}, "target": {p.Target}, "pending": {p.ID}}
	if p.Verb == job.Start.Name { // the second person confirms the arguments of the first one
		return "/decide/many?" + url.Values{"pending": {p.ID}}.Encode()
	}
	for name, value := range p.Args {
		q.Set(name, value)
	}
	return "/decide?" + q.Encode()
}

// subjectPages maps kinds of conditions to the page that lists their subjects, and pageFilters the pages to their
// filters, which have the names of labels. subjectNouns names the subjects.
var (
	subjectPages = map[string]string{
		condition.Parked: "/events", condition.Unmapped: "/events", condition.Unrouted: "/events",
		condition.Uncertain: "/effects", condition.Task: "/tasks", condition.Unassigned: "/payments/unassigned",
		condition.Sink: "/sinks", condition.Rejected: "/rejections",
		condition.Rules: "/rules",
	}
	subjectNouns = map[string]string{"/events": "event", "/effects": "step", "/tasks": "task",
		"/payments/unassigned": "payment", "/sinks": "sink", "/rejections": "refused delivery", "/rules": "version"}
	pageFilters = map[string][]string{"/events": event.Criteria, "/tasks": {"mode", "kind"}, "/effects": {"state"},
		"/payments/unassigned": {"mode"}, "/rejections": {"source"}}
)

// newWrong returns the row of a condition.
func newWrong(c report.Condition, now time.Time) wrong {
	row := wrong{Badge: badges[string(c.Severity)], What: c.Message, More: c.Detail}
	row.Word, _ = label.Condition(c.Kind())
	if c.Kind() == condition.Parked {
		row.Word = label.Word(c.Labels["status"])
	}
	if len(c.Money) > 0 {
		row.More = decide.Sums(c.Money)
	}
	if !c.Since.IsZero() {
		row.Since = &when{c.Since, now}
	}
	page, listed := subjectPages[c.Kind()]
	q := url.Values{}
	for _, name := range pageFilters[page] {
		if c.Labels[name] != "" {
			q.Set(name, c.Labels[name])
		}
	}
	command := "pawl " + c.Command
	row.Button = button{Label: command, Effect: "shows the next step", Command: command}
	if listed {
		row.See = page
		if len(q) > 0 {
			row.See += "?" + q.Encode()
		}
		row.Button = button{Label: "Open " + output.Plural(c.Count, subjectNouns[page]), Href: row.See}
	}
	switch {
	case c.Kind() == condition.Paused:
		row.Button = placeButton(true, c.Labels["kind"], c.Labels["name"])
	case c.Kind() == condition.Parked && c.Labels["status"] == string(receipt.Dead):
		q.Set("verb", event.Retry.Name)
		row.Button = button{Label: "Try " + output.Plural(c.Count, "event") + " again",
			Effect: "shows what a retry of all of them does",
			Verb:   event.Retry.Name,
			Href:   "/decide/many?" + q.Encode()}
	}
	return row
}
