package tables

import (
	"time"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// Scheduled lists scheduled actions.
func Scheduled(actions []account.Scheduled) output.Table {
	return output.Rows("WHEN|WHAT|ACCOUNT|ABOUT|AMOUNT|NOTE|EVENT", actions, func(s account.Scheduled) []any {
		var amount output.Money
		if s.Amount != nil {
			amount = moneyOf(*s.Amount, s.Currency)
		}
		return []any{&s.At, planned(s.Due), accountLink(s.Account, s.Mode),
			aboutLink(s.Number, s.Object, s.Account), amount, obstacle(s, time.Now()), eventLink(s.Event)}
	})
}

// obstacle describes the reason why an action does not start by itself at its time, or "". The run of another action of
// the account also executes it. An event in progress delays only an action that is due already.
func obstacle(s account.Scheduled, now time.Time) string {
	switch {
	case s.Parked():
		return "waits for a decision about " + s.Event + ", or for the next action of the account"
	case s.PausedSource != "":
		return "waits until source " + s.PausedSource + " is resumed, or for the next action of the account"
	case s.At.After(now):
		return ""
	case s.EventStatus == "received" || s.EventStatus == "retrying":
		return "waits for " + s.Event
	}
	return "is due"
}
