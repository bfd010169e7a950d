package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	accounts "github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/timeline"
)

// findPage is the page of a search with several results or without a result. If there is a single result, the browser
// is redirected to the page of that result.
type findPage struct {
	Query  string
	Events *shownTable
	// Account is the link to the account that the search found, or empty.
	Account, AccountHref string
}

// findAmount returns the events about the newest invoices with an amount, or nil.
func (s *Server) findAmount(v *visit, q string) (*shownTable, error) {
	invoices, err := accounts.OfAmount(v.ctx(), s.Operator.DB, q)
	if err != nil || len(invoices) == 0 {
		return nil, err
	}
	about, err := event.List(v.ctx(), s.Operator.DB, event.Filter{Filter: timeline.Filter{About: invoices}})
	if err != nil || len(about) == 0 {
		return nil, err
	}
	t := newReceipts(about)
	return &t, nil
}

// dayLayouts are the forms of a day. The order of day and month in 11/30/2026 depends on the country, so this form is
// missing.
var dayLayouts = []string{time.DateOnly, "2.1.2006", "2 January 2006", "2 Jan 2006", "January 2, 2006", "Jan 2, 2006",
	"January 2 2006", "Jan 2 2006", "2 January", "2 Jan", "January 2", "Jan 2"}

// dayOf parses a day, today or yesterday.
func dayOf(text string, now time.Time) (day time.Time, is bool) {
	switch strings.ToLower(text) {
	case "today":
		return now, true
	case "yesterday":
		return now.AddDate(0, 0, -1), true
	}
	for _, layout := range dayLayouts {
		if day, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			if day.Year() == 0 { // a form without a year: the latest such day
				if day = day.AddDate(now.Year(), 0, 0); day.After(now) {
					day = day.AddDate(-1, 0, 0)
				}
			}
			return day, true
		}
	}
	return time.Time{}, false
}

// find searches for anything that a customer can name, and redirects to the event, account, job or task. A day leads to
// its events.
func (s *Server) find(v *visit) error {
	q := strings.TrimPrefix(strings.TrimSpace(v.QueryParam("q")), "#")
	if q == "" {
		return s.render(v, http.StatusOK, "find", "Find", findPage{})
	}
	evidence, err := event.Examine(v.ctx(), s.Operator, q)
	fault, is := errors.AsType[*decide.Fault](err)
	switch {
	case err == nil:
		return v.Redirect(http.StatusSeeOther, "/events/"+url.PathEscape(evidence.Receipt.ID))
	case !is:
		return err
	}
	about := fault.Receipts
	page := findPage{Query: q}
	acc, err := account.Show(v.ctx(), s.Operator.DB, q, "")
	switch {
	case err == nil && len(about) == 0, err == nil && acc.ID == q:
		return v.Redirect(http.StatusSeeOther, accountHref(acc.Mode, acc.ID))
	case err == nil:
		page.Account, page.AccountHref = acc.ID, accountHref(acc.Mode, acc.ID)
	case !decide.IsFault(err, decide.Unknown):
		return err
	case len(about) == 0:
		alike, err := accounts.Alike(v.ctx(), s.Operator.DB, q)
		if err != nil {
			return err
		}
		if len(alike) > 0 {
			page.Account, page.AccountHref = alike[0].ID, accountHref(alike[0].Mode, alike[0].ID)
			return s.render(v, http.StatusOK, "find", "Find "+q, page)
		}
	}
	if len(about) > 0 {
		t := newReceipts(about)
		page.Events = &t
		return s.render(v, http.StatusOK, "find", "Find "+q, page)
	}
	return s.findOther(v, q, page)
}

// findOther searches for everything that is neither an event nor an account of billing.
func (s *Server) findOther(v *visit, q string, page findPage) error {
	if day, is := dayOf(q, time.Now()); is {
		return v.Redirect(http.StatusSeeOther, "/events?since="+day.Format(time.DateOnly)+
			"&until="+day.AddDate(0, 0, 1).Format(time.DateOnly))
	}
	ofFlow, err := timeline.HasAccount(v.ctx(), s.Operator.DB, q)
	if err != nil {
		return err
	}
	if ofFlow {
		return v.Redirect(http.StatusSeeOther, "/events?account="+url.QueryEscape(q))
	}
	if page.Events, err = s.findAmount(v, q); err != nil {
		return err
	}
	if page.Events != nil {
		return s.render(v, http.StatusOK, "find", "Find "+q, page)
	}
	asked, err := accounts.OpenTasks(v.ctx(), s.Operator.DB, accounts.TaskFilter{About: q, Limit: 1})
	if err != nil {
		return err
	}
	if len(asked) > 0 { // an unmapped price
		return v.Redirect(http.StatusSeeOther, "/tasks?about="+url.QueryEscape(q))
	}
	if _, err := job.Show(v.ctx(), s.Operator, q, "", 1); err == nil {
		return v.Redirect(http.StatusSeeOther, "/jobs/"+url.PathEscape(q))
	}
	if _, err := task.Show(v.ctx(), s.Operator, q); err == nil {
		return v.Redirect(http.StatusSeeOther, "/tasks/"+url.PathEscape(q))
	}
	return s.render(v, http.StatusNotFound, "find", "Find "+q, page)
}
