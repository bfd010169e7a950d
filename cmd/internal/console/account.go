package console

import (
	"net/http"
	"net/url"
	"strings"

	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing/account"
)

func (s *Server) accounts(v *visit) error {
	q := func(name string) string { return strings.TrimSpace(v.FormValue(name)) }
	f := account.Filter{Mode: q("mode"), Access: q("access"), Plan: q("plan"), Status: q("status"), Limit: listed + 1}
	f.After.Mode, f.After.ID, _ = strings.Cut(q("after"), "/")
	found, err := account.List(v.ctx(), s.Operator.DB, f)
	if err != nil {
		return err
	}
	page := listPage{Filters: []filter{
		{"mode", "mode", f.Mode, []string{"live", "test"}},
		{"access", "access", f.Access, []string{"active", "suspended", "none"}},
		{"plan", "plan", f.Plan, nil}, {"status", "subscription", f.Status, nil},
	}, Empty: "No account passes these filters. Accounts appear with their first billing event, or by pawl import."}
	if len(found) > listed {
		found = found[:listed]
		last := found[listed-1]
		page.Older = older("/accounts", page.Filters, "after", last.Mode+"/"+last.ID)
	}
	page.Rows = newTable(tables.Accounts(found))
	return s.render(v, http.StatusOK, "list", "Accounts", page)
}

// accountPage is everything about one account.
type accountPage struct {
	*account.Account
	Head  [][2]cell
	Parts []shownTable
	// Story are its newest events.
	Story   shownTable
	Stories string // the link to all of them
	Choices []button
}

func (s *Server) account(v *visit) error {
	id, err := v.segment("id")
	if err != nil {
		return err
	}
	acc, err := accounts.Show(v.ctx(), s.Operator.DB, id, v.Param("mode"))
	if err != nil {
		return err
	}
	parts := tables.Account(acc)
	page := accountPage{Account: acc, Head: pairs(parts[0]), Stories: "/events?account=" + url.QueryEscape(acc.ID)}
	for _, rows := range parts[1:] {
		if len(rows) > 1 {
			page.Parts = append(page.Parts, newTable(rows))
		}
	}
	events := event.Filter{Account: acc.ID}
	events.Limit = 20
	found, err := event.List(v.ctx(), s.Operator.DB, events)
	if err != nil {
		return err
	}
	page.Story = newReceipts(found)
	verb, does := "hold-account", "holds back all that the account may use, whatever is paid for"
	if acc.Access.Held {
		verb, does = "release-account", "gives back what the hold has taken"
	}
	d := decide.Decision{Verb: verb, Target: acc.ID, Args: decide.Args{Mode: acc.Mode}}
	page.Choices = allowed(v.person, []button{{Label: strings.ReplaceAll(verb, "-", " "), Does: does, Verb: verb,
		Href: decideHref(d), Grave: !acc.Access.Held}})
	return s.render(v, http.StatusOK, "account", acc.ID, page)
}
