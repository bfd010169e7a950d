package console

import (
	"net/http"
	"net/url"
	"time"

	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/timeline"
)

// accountPage is the data of an account's page.
type accountPage struct {
	*account.Account
	// State is the access as a badge, and Reason explains it.
	State, Reason cell
	// Story is the history of the account in sentences.
	Story shownTable
	// Head and Parts are details that are collapsed at first.
	Head  [][2]cell
	Parts []shownTable
	// Events lists the newest events of the account, and AllEvents is the link to all of them.
	Events    shownTable
	AllEvents string
	// Emails lists the newest e-mails of the account, and AllEmails is the link to all of them.
	Emails    shownTable
	AllEmails string
	Choices   []button
}

// The page of an account shows at most emailsListed e-mails of its newest emailEvents events.
const (
	emailsListed = 10
	emailEvents  = 200
)

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
	page := accountPage{Account: acc, Head: pairs(parts[0]), State: newCell("", tables.AccessBadge(acc)),
		Reason: newCell("", tables.AccessReason(acc, time.Now())), Story: newTable(tables.Story(acc)),
		AllEvents: "/events?account=" + url.QueryEscape(acc.ID),
		AllEmails: "/emails?" + url.Values{"account": {acc.ID}, "mode": {acc.Mode}}.Encode()}
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
	page.Events = newReceipts(found)
	emails, err := timeline.Emails(v.ctx(), s.Operator.DB,
		timeline.EmailFilter{Mode: acc.Mode, Account: acc.ID, Newest: emailEvents, Limit: emailsListed})
	if err != nil {
		return err
	}
	page.Emails = withResends(v.person, newTable(tables.Emails(emails)).without("ACCOUNT"), emails)
	verb, does := "hold-account", "suspends the access of the account, even if it is paid"
	if acc.Access.Held {
		verb, does = "release-account", "restores the access that the account has paid for"
	}
	d := decide.Decision{Verb: verb, Target: acc.ID, Args: decide.Args{Mode: acc.Mode}}
	page.Choices = permitted(v.person, []button{{Label: label.Verb(verb), Effect: does, Verb: verb,
		Href: decideHref(d), Grave: !acc.Access.Held}})
	return s.render(v, http.StatusOK, "account", acc.ID, page)
}
