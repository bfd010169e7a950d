package console

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// nowPage is the start page. It lists all current problems, in events and elsewhere, each with one action.
type nowPage struct {
	At     when
	Wrong  []wrong
	Oldest *timeline.Open
	// Calm lists the other parts of the status: automatic retries, sinks, and jobs.
	Calm []shownTable
}

// wrong is a row of the list.
type wrong struct {
	// Badge is the class of Word, What the cause, and More the number and the amount.
	Word, Badge, What, More string
	Since                   *when
	Does                    button
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
	page := nowPage{At: when{now, now}, Oldest: r.Oldest}
	since := func(t time.Time) *when { return &when{t, now} }
	for _, p := range r.Pending {
		page.Wrong = append(page.Wrong, wrong{Word: "second person", Badge: "ask", What: p.Does() + " of " + p.Target,
			More: operator.Sums(p.Money) + ", asked for by " + p.AskedBy, Since: since(p.AskedAt),
			Does: button{Label: "open", Does: "confirm it, as the second person", Verb: p.Does(), Href: pendingHref(p)},
			See:  "/audit?" + url.Values{"action": {"ask-" + p.Verb}}.Encode()})
	}
	for _, c := range r.Parked {
		q := url.Values{"status": {c.Status}}
		if c.ReasonCode != "" {
			q.Set("reason", c.ReasonCode)
		}
		see := "/events?" + q.Encode()
		q.Set("verb", operator.VerbRetry)
		does := button{Label: "retry all", Does: "shows what a retry of all of them does",
			Href: "/decide/many?" + q.Encode()}
		if c.Status == string(receipt.NeedsReview) || !v.person.May(role.RightDecide) {
			does = button{Label: "open", Does: "lists the events", Href: see}
		}
		page.Wrong = append(page.Wrong, wrong{Word: c.Status, Badge: badges[c.Status], What: c.ReasonCode,
			More:  output.Plural(c.Events, "event") + tables.InBrackets(operator.Sums(c.Money)),
			Since: since(c.Oldest), Does: does, See: see})
	}
	for _, t := range r.Tasks {
		see := "/tasks?" + url.Values{"kind": {t.Kind}, "mode": {t.Mode}}.Encode()
		row := wrong{Word: "task", Badge: "ask", What: t.Kind,
			More:  output.Plural(t.Tasks, "task") + tables.InBrackets(operator.Sums(t.Money)) + ", " + t.Mode,
			Since: since(t.Oldest), Does: button{Label: "see to it", Href: see}, See: see}
		if t.DueBy != nil {
			row.More += ", due " + when{*t.DueBy, now}.Relative()
		}
		page.Wrong = append(page.Wrong, row)
	}
	page.Wrong = append(page.Wrong, outside(r, now)...)
	for i, row := range page.Wrong {
		if allowed(v.person, []button{row.Does}) == nil {
			page.Wrong[i].Does = button{Label: "open", Href: cmp.Or(row.See, "/sinks")}
		}
	}
	// The list above contains the parked events, tasks and concerns.
	for _, rows := range [][][]string{tables.Waiting(r.Waiting, now), tables.Notices(r.Notices, now),
		tables.Sinks(r.Sinks), tables.Jobs(r.Jobs)} {
		if len(rows) > 1 {
			page.Calm = append(page.Calm, newTable(rows))
		}
	}
	return s.render(v, http.StatusOK, "now", "Now", page)
}

// pendingHref returns the link to a decision that waits for a second person.
func pendingHref(p pending.Decision) string {
	q := url.Values{"verb": {p.Verb}, "target": {p.Target}, "pending": {p.ID}}
	if p.Verb == operator.VerbStartJob { // the second person confirms the arguments of the first one
		return "/decide/many?" + url.Values{"pending": {p.ID}}.Encode()
	}
	for name, value := range p.Args {
		q.Set(name, value)
	}
	return "/decide?" + q.Encode()
}

// outside lists the problems that are not events: sinks with an open breaker, and concerns.
func outside(r *report.Status, now time.Time) (rows []wrong) {
	for _, sink := range r.Sinks {
		if sink.State != "out" { // the concerns contain the pauses
			continue
		}
		row := wrong{Word: "sink " + sink.State, Badge: badges[sink.State], What: sink.Name, More: sink.Reason,
			See: "/sinks", Does: button{Label: "look", Href: "/sinks"}}
		if sink.Since != nil {
			row.Since = &when{*sink.Since, now}
		}
		rows = append(rows, row)
	}
	for _, c := range r.Concerns {
		command := "pawl " + c.Command
		row := wrong{Word: c.What, Badge: "wait", What: c.Name, More: c.Says,
			Does: button{Label: command, Does: "goes on from here", Command: command}}
		if c.What == report.Unclaimed {
			row.See = "/money?" + url.Values{"mode": {c.Name}}.Encode()
			row.Does = button{Label: "open", Does: "lists the money, to give each to an account", Href: row.See}
		}
		if place, paused := strings.CutPrefix(c.Command, "resume "); paused {
			row.Does = placeButton("resume", strings.TrimSuffix(place, " --why REASON"))
		}
		if c.Since != nil {
			row.Since = &when{*c.Since, now}
		}
		rows = append(rows, row)
	}
	return rows
}
