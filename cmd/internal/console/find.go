package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
)

// findPage is the page of a search with several results or without a result. If there is a single result, the browser
// is redirected to the page of that result.
type findPage struct {
	Query  string
	Events *shownTable
	// Account is the link to the account that the search found, or empty.
	Account, AccountHref string
}

// find searches for any ID that a customer can name, and redirects to the event, account, job or task.
func (s *Server) find(v *visit) error {
	q := strings.TrimSpace(v.QueryParam("q"))
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
		return v.Redirect(http.StatusSeeOther, "/accounts/"+acc.Mode+"/"+url.PathEscape(acc.ID))
	case err == nil:
		page.Account, page.AccountHref = acc.ID, "/accounts/"+acc.Mode+"/"+url.PathEscape(acc.ID)
	case !decide.IsFault(err, decide.Unknown):
		return err
	}
	if len(about) > 0 {
		t := newReceipts(about)
		page.Events = &t
		return s.render(v, http.StatusOK, "find", "Find "+q, page)
	}
	if _, err := job.Show(v.ctx(), s.Operator, q, "", 1); err == nil {
		return v.Redirect(http.StatusSeeOther, "/jobs/"+url.PathEscape(q))
	}
	if _, err := task.Show(v.ctx(), s.Operator, q); err == nil {
		return v.Redirect(http.StatusSeeOther, "/tasks/"+url.PathEscape(q))
	}
	return s.render(v, http.StatusNotFound, "find", "Find "+q, page)
}
