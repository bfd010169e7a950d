// Package obstacle explains in one sentence why an account has no access, or less access than it paid for: the cause,
// the amount and the next step. [account.Show] finds the causes.
package obstacle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/money"
	"github.com/pawlhq/pawl/workflows/plan"
)

// Explain sets the messages and commands of an account's obstacles. word quotes an ID for a shell.
func Explain(a *account.Account, word func(string) string) {
	for i := range a.Obstacles {
		o := &a.Obstacles[i]
		o.Message, o.Command = explain(a, *o, word)
	}
}

func explain(a *account.Account, o account.Obstacle, word func(string) string) (message, command string) {
	show, tasks := "events show "+word(o.Object), "tasks list --account "+word(a.ID)
	release := "accounts release " + word(a.ID) + " --mode " + a.Mode
	switch o.Cause {
	case account.UnknownPrice:
		return Unmapped(account.UnmappedPrice{Price: o.Detail, Amount: o.Amount, Currency: o.Currency,
			Active: a.Access.State == "active"}), "tasks list --kind unknown_price --mode " + a.Mode
	case account.UnpaidInvoice:
		return fmt.Sprintf("Invoice %s is open with %s. %s", number(a, o.Object), amount(o), attempt(o)), ""
	case account.PurchaseRefused:
		return fmt.Sprintf("The purchase of %s was refused%s, and pawl revoked the access. "+
			"Refund it, or grant access.", o.Object, paid(o)), tasks
	case account.ChangeRefused:
		return fmt.Sprintf("The change of %s was refused%s, and the earlier access stays. "+
			"Refund it, or grant the change.", o.Object, paid(o)), tasks
	case account.ParkedEvent:
		return parked(o, word)
	case account.RetryingEvent:
		return fmt.Sprintf("pawl retries event %s%s: %s.", o.Object, about(o), cause(o)), show
	case account.EffectsWithheld:
		return fmt.Sprintf("%s is withheld%s, because the event occurred before effects began.",
			label.KindOf(o.Detail).Name, about(o)), "effects show"
	case account.SinkDown:
		if reason, paused := strings.CutPrefix(o.Detail, "paused: "); paused {
			return fmt.Sprintf("The workspace is not ready: a person has paused %s since %s (%s). The work continues when the sink is resumed.",
				label.SinkIn(o.Object), date(o.At), reason), "sinks"
		}
		return fmt.Sprintf("The workspace is not ready: %s has been down since %s (%s). pawl retries automatically.",
			label.SinkIn(o.Object), date(o.At), o.Detail), "sinks"
	case account.Disputed:
		return fmt.Sprintf("Access is suspended by dispute %s of %s (%s). Answer it in Stripe, or release the hold.",
			o.Object, amount(o), o.Detail), release
	case account.PaidBack:
		return fmt.Sprintf("The payment of %s was refunded in full%s. A new payment grants access.", o.Object,
			paid(o)), ""
	case account.OnHold:
		return o.Object + " is on hold. Release it to restore access.", release
	case account.Ended:
		return fmt.Sprintf("%s has ended (%s). A new purchase grants access.", o.Object, date(o.At)), ""
	}
	return string(o.Cause), ""
}

// Unmapped explains an unmapped price: its consequence, the paid amount, the task and the next step.
func Unmapped(p account.UnmappedPrice) string {
	says := "No access: price " + p.Price + " has no plan."
	if p.Active {
		says = "Price " + p.Price + " has no plan, so it changes nothing."
	}
	if p.Amount != nil {
		says += " " + money.Format(*p.Amount, p.Currency) + " paid."
	}
	if p.Since != nil {
		says += " Task open since " + date(p.Since) + "."
	}
	return says + " Map the price in plans.prices, and apply the new rules."
}

// parked explains a parked event, and the command that continues it.
func parked(o account.Obstacle, word func(string) string) (message, command string) {
	event := fmt.Sprintf("Event %s%s", o.Object, about(o))
	if o.State == "failed" {
		return fmt.Sprintf("%s is not finished: %s. Remove the cause, then retry the event.", event, failure(o)),
			"events retry " + word(o.Object) + " --reason REASON"
	}
	return fmt.Sprintf("%s waits for a decision: %s.", event, cause(o)),
		"events show " + word(o.Object)
}

// cause describes the effect that blocks an event, or the reason of the event.
func cause(o account.Obstacle) string {
	// The error of a step that is retried begins with the kind of the step.
	if kind, answer, found := strings.Cut(o.Detail, ": "); found && o.Effect == "" && plan.SinkOf(kind) != "" {
		o.Effect, o.Error = kind, answer
	}
	return cmp.Or(failure(o), strings.TrimSuffix(label.Clause(o.Detail), "."))
}

// failure describes the effect that blocks an event, with the last answer of its sink. It returns "" if no effect
// blocks the event.
func failure(o account.Obstacle) string {
	if o.Effect == "" {
		return ""
	}
	words := label.KindOf(o.Effect)
	says := words.Subject + " is not " + words.Done
	if o.State == "uncertain" {
		says = "it is not known whether " + words.Subject + " was " + words.Done
	}
	if answer := label.Answer(plan.SinkOf(o.Effect), o.Error); answer != "" {
		says += ". " + strings.TrimSuffix(answer, ".")
	}
	return says
}

// number returns the number of an invoice of the account, or its ID.
func number(a *account.Account, id string) string {
	for _, i := range a.Invoices {
		if i.ID == id {
			return cmp.Or(i.Number, id)
		}
	}
	return id
}

func amount(o account.Obstacle) string {
	if o.Amount == nil {
		return "an unknown amount"
	}
	return money.Format(*o.Amount, o.Currency)
}

// paid returns the paid amount as a clause. If there is no amount, paid returns "".
func paid(o account.Obstacle) string {
	if o.Amount == nil {
		return ""
	}
	return ", " + amount(o) + " paid"
}

// about returns the amount in brackets. If there is no amount, about returns "".
func about(o account.Obstacle) string {
	if o.Amount == nil {
		return ""
	}
	return " (" + amount(o) + ")"
}

func attempt(o account.Obstacle) string {
	if o.At == nil {
		return "No further attempt is planned: the customer has to pay it."
	}
	return "Stripe plans the next attempt: " + date(o.At) + "."
}

func date(at *time.Time) string {
	if at == nil {
		return "an unknown time"
	}
	return at.UTC().Format("2006-01-02 15:04 MST")
}
