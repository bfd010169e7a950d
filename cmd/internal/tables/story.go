package tables

import (
	"cmp"
	"slices"
	"strings"
	"time"

	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/money"
)

// AccessReason explains in sentences whether an account has access and why, with the problems and the open tasks.
func AccessReason(acc *account.Account, now time.Time) string {
	var sentences []string
	switch {
	case acc.Access.Held:
		sentences = append(sentences, "The account is on hold")
	case acc.Access.State == "active":
		sentences = append(sentences, "Access to "+accounts.Uses(acc.Access.Plan, acc.Access.Quantity))
	case acc.Access.Version == 0 && len(acc.Subscriptions)+len(acc.Invoices)+len(acc.Obstacles) == 0:
		sentences = append(sentences, "The account never had access")
	}
	for _, o := range acc.Obstacles {
		if o.Cause != account.OnHold {
			sentences = append(sentences, o.Message)
		}
	}
	if len(acc.Obstacles) == 0 && acc.Access.State != "active" {
		for _, why := range accounts.Reasons(acc, now, output.Date) {
			sentences = append(sentences, why.Object+" "+why.Message)
		}
	}
	down := func(o account.Obstacle) bool { return o.Cause == account.SinkDown }
	if acc.Workspace != nil && acc.Workspace.Version < acc.Access.Version && !slices.ContainsFunc(acc.Obstacles, down) {
		sentences = append(sentences, "The workspace is not updated yet")
	}
	if n := len(acc.Tasks); n > 0 {
		sentences = append(sentences, output.Plural(n, "task")+" open since "+output.Time(acc.Tasks[0].Since))
	}
	for i, s := range sentences {
		sentences[i] = strings.TrimRight(s, ".") + "."
	}
	return strings.Join(sentences, " ")
}

// AccessBadge returns the state of the access.
func AccessBadge(acc *account.Account) output.Badge {
	switch {
	case acc.Access.State != "active":
		return output.Badge(cmp.Or(acc.Access.State, "none"))
	case acc.Access.Held:
		return "on hold"
	case len(acc.Obstacles) > 0:
		return "limited"
	}
	return "active"
}

// step is a row of the history of an account.
type step struct {
	at    time.Time
	what  string
	cash  *account.Cash
	event string
}

// Story returns the history of an account in sentences, newest first, with its planned steps. It shows each movement of
// money with its sign, and the balance after it.
func Story(acc *account.Account) output.Table {
	steps := slices.Concat(moneySteps(acc), accessSteps(acc), plannedSteps(acc))
	slices.SortStableFunc(steps, func(a, b step) int { return b.at.Compare(a.at) })
	balance := map[string]int64{} // after the newest movement of each currency
	for _, c := range acc.Cash {
		balance[c.Currency] = c.Amount
	}
	return output.Rows("WHEN|WHAT|MONEY|BALANCE|EVENT", steps, func(s step) []any {
		moved, after := "", ""
		if s.cash != nil && s.cash.Amount != 0 {
			moved = signed(s.cash.Amount, s.cash.Currency)
			after = money.Format(balance[s.cash.Currency], s.cash.Currency)
			balance[s.cash.Currency] -= s.cash.Amount
		}
		return []any{&s.at, s.what, moved, after, eventLink(s.event)}
	})
}

// entryWords maps kinds of entries to the first words of a sentence.
var entryWords = map[string]string{
	"payment": "Booked: payment", "refund": "Booked: refund", "reversal": "Booked: reversal of the sale",
	"refund_reversal": "Booked: the refund failed, and its money is back", "credit": "Booked: credit note",
	"credit_reversal": "Booked: the credit note was voided", "dispute": "Booked: dispute",
	"correction": "Booked: correction",
}

func moneySteps(acc *account.Account) (steps []step) {
	invoice := func(id string) string {
		i := slices.IndexFunc(acc.Invoices, func(i account.Invoice) bool { return i.ID == id && id != "" })
		if i < 0 {
			return ""
		}
		return ", invoice " + cmp.Or(acc.Invoices[i].Number, id)
	}
	for _, e := range acc.Entries {
		what := cmp.Or(entryWords[e.Kind], "Booked: "+e.Kind) + invoice(e.Invoice)
		if e.Cash == 0 {
			what += ", " + signed(e.Signed(), e.Currency) + " without a movement of money"
		}
		steps = append(steps, step{at: e.At, what: what, cash: &account.Cash{Amount: e.Cash, Currency: e.Currency}})
	}
	for _, i := range acc.Invoices {
		of := invoice(i.ID)
		if i.PaidAt != nil {
			steps = append(steps, step{at: *i.PaidAt, event: i.Event,
				what: "Paid " + money.Format(i.Paid, i.Currency) + of})
		} else if i.Status == "open" && i.NextAttempt != nil {
			steps = append(steps, step{at: *i.NextAttempt, event: i.Event,
				what: "Stripe tries to collect " + money.Format(i.Due-i.Paid, i.Currency) + of})
		}
	}
	return steps
}

func accessSteps(acc *account.Account) (steps []step) {
	for _, c := range acc.History {
		what := "Access: " + label.Word(c.After.State)
		if c.After.Plan != "" {
			what += ", " + accounts.Uses(c.After.Plan, c.After.Quantity)
		}
		steps = append(steps, step{at: c.At, what: what + " (" + c.Reason + ")", event: c.Event})
	}
	if w := acc.Workspace; w != nil {
		steps = append(steps, step{at: w.UpdatedAt, what: "Workspace updated: " + label.Word(w.State) +
			output.WithReason(plan(w.Plan, w.Quantity))})
	}
	for _, s := range acc.Subscriptions {
		if s.PastDueSince != nil {
			steps = append(steps, step{at: *s.PastDueSince, what: "Payment overdue, " + s.ID, event: s.Event})
		}
		if s.EndedAt != nil {
			steps = append(steps, step{at: *s.EndedAt, what: "Subscription ended, " + s.ID, event: s.Event})
		}
	}
	for _, t := range acc.Tasks {
		steps = append(steps, step{at: t.Since, what: "Task opened: " + t.Title, event: t.Event})
	}
	return steps
}

func plannedSteps(acc *account.Account) (steps []step) {
	for _, d := range acc.Due {
		steps = append(steps, step{at: d.At, what: "Planned: " + planned(d), event: d.Event})
	}
	for _, g := range acc.Grants {
		switch {
		case g.Ends != nil:
			steps = append(steps, step{at: *g.Ends, what: "Access from " + g.Object + " ends", event: g.Event})
		case g.Until != nil:
			what := "Access ends here unless " + g.Object + " is renewed"
			steps = append(steps, step{at: *g.Until, what: what, event: g.Event})
		}
	}
	return steps
}
