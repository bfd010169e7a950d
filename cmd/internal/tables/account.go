package tables

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/money"
)

// Account returns an account as several tables: its access with the reason, its objects, and its tasks.
func Account(acc *account.Account) []output.Table {
	head := output.Table{{"account", acc.ID + " (" + acc.Mode + ")"}}
	if acc.Customer != "" {
		head = append(head, []any{"customer", acc.Customer + " at " + acc.Provider})
	}
	head = append(head, []any{"access", accessOf(acc.Access)})
	if len(acc.Access.Features) > 0 {
		head = append(head, []any{"features", strings.Join(acc.Access.Features, ", ")})
	}
	label := "because"
	if acc.Access.Held {
		label = "held back"
	}
	for _, why := range accounts.Reasons(acc, time.Now(), output.Date) {
		says := why.Object + " " + why.Message
		if why.Event != "" {
			says += ", by " + why.Event
		}
		head = append(head, []any{label, says})
	}
	for _, o := range acc.Obstacles {
		head = append(head, []any{"problem", o.Message})
		if o.Command != "" {
			head = append(head, []any{"next step", "pawl " + o.Command})
		}
	}
	head = append(head, []any{"workspace", workspaceOf(acc)})
	var sums []string
	for _, c := range acc.Cash {
		sums = append(sums, money.Format(c.Amount, c.Currency))
	}
	if sums != nil {
		head = append(head, []any{"cash", strings.Join(sums, ", ") + ", the sum of all entries"})
	}
	return []output.Table{head, subscriptions(acc.Subscriptions), history(acc.History), invoices(acc),
		adjustments(acc.Adjustments), entries(acc.Entries), due(acc.Due), Tasks(acc.Tasks)}
}

func history(changes []account.Change) output.Table {
	return output.Rows("ACCESS CHANGED|FROM|TO|REASON|BY", changes, func(c account.Change) []any {
		from := ""
		if c.Before != nil {
			from = usesOf(*c.Before)
		}
		return []any{c.At, from, usesOf(c.After), c.Reason, eventLink(c.Event)}
	})
}

func usesOf(x account.Access) string {
	if x.Plan == "" {
		return x.State
	}
	return x.State + ": " + accounts.Uses(x.Plan, x.Quantity)
}

func accessOf(x account.Access) string {
	if x.Version == 0 {
		return "none: nothing was ever granted"
	}
	text := usesOf(x)
	if x.Held {
		text += "; held back by a hold on the whole account"
	}
	return fmt.Sprintf("%s (version %d)", text, x.Version)
}

// plan returns a plan with its number of seats, or "".
func plan(plan string, quantity int64) string {
	if plan == "" {
		return ""
	}
	return accounts.Uses(plan, quantity)
}

func workspaceOf(acc *account.Account) string {
	w := acc.Workspace
	if w == nil {
		return "none"
	}
	text := w.State
	if w.Plan != "" {
		text += ": " + accounts.Uses(w.Plan, w.Quantity)
	}
	text += fmt.Sprintf(" (version %d, since %s)", w.Version, output.Time(w.UpdatedAt))
	if w.Version < acc.Access.Version {
		text += fmt.Sprintf(", version %d is not applied yet", acc.Access.Version)
	}
	return text
}

func subscriptions(list []account.Subscription) output.Table {
	return output.Rows("SUBSCRIPTION|STATUS|PLAN|PERIOD ENDS|NOTE|BY", list, func(s account.Subscription) []any {
		var notes []string
		for _, n := range []struct {
			text string
			is   bool
		}{
			{"ended " + output.Date(s.EndedAt), s.EndedAt != nil},
			{"past due since " + output.Date(s.PastDueSince), s.PastDueSince != nil && s.EndedAt == nil},
			{"ends " + output.Date(s.EndsAt), s.EndsAt != nil && s.EndedAt == nil},
			{"its access is withdrawn", s.Withheld},
			{"held", s.Held},
			{"the order of its events is uncertain", s.Uncertain},
		} {
			if n.is {
				notes = append(notes, n.text)
			}
		}
		return []any{objectLink(s.ID), output.Badge(cmp.Or(s.Status, "unknown")), plan(s.Plan, s.Quantity), s.PeriodEnd,
			strings.Join(notes, "; "), eventLink(s.Event)}
	})
}

func invoices(acc *account.Account) output.Table {
	rows := output.Rows("INVOICE|NUMBER|STATUS|DUE|PAID|NOTE|BY", acc.Invoices, func(i account.Invoice) []any {
		var notes []string
		if i.Refunded > 0 {
			notes = append(notes, money.Format(i.Refunded, i.Currency)+" refunded")
		}
		if i.Stuck != "" {
			notes = append(notes, "cannot be finalized: "+i.Stuck)
		}
		if i.PaidAt == nil && i.Attempts > 0 {
			notes = append(notes, "tried "+output.Plural(i.Attempts, "time"))
		}
		if i.PaidAt == nil && i.NextAttempt != nil {
			notes = append(notes, "next "+output.Date(i.NextAttempt))
		}
		return []any{objectLink(i.ID), i.Number, output.Badge(i.Status), money.Format(i.Due, i.Currency), i.PaidAt,
			strings.Join(notes, "; "), eventLink(i.Event)}
	})
	if acc.MoreInvoices {
		rows = append(rows, []any{"older ones are not shown"})
	}
	return rows
}

func entries(entries []account.Entry) output.Table {
	return output.Rows("BOOKED|ENTRY|OBJECT|AMOUNT|CASH|REFERENCE", entries, func(e account.Entry) []any {
		return []any{e.At, e.Kind, objectLink(e.Object), money.Format(e.Amount, e.Currency),
			money.Format(e.Cash, e.Currency), e.Reference}
	})
}

func adjustments(adjustments []account.Adjustment) output.Table {
	return output.Rows("ADJUSTMENT|KIND|STATUS|INVOICE|AMOUNT", adjustments, func(c account.Adjustment) []any {
		return []any{objectLink(c.ID), strings.ReplaceAll(c.Kind, "_", " "), output.Badge(c.Status),
			objectLink(c.Invoice), money.Format(c.Amount, c.Currency)}
	})
}

func due(due []account.Due) output.Table {
	return output.Rows("DUE|WHAT|OBJECT|BY", due, func(d account.Due) []any {
		return []any{&d.At, planned(d), objectLink(d.Object), eventLink(d.Event)}
	})
}

// planned describes a scheduled action.
func planned(d account.Due) string {
	text := scheduled[d.Kind]
	switch {
	case d.Kind != fold.DueDunning:
	case d.Step == 0:
		text = "sends the e-mail that the payment is overdue"
	default:
		text += " " + strconv.Itoa(d.Step)
	}
	return cmp.Or(text, string(d.Kind))
}

// scheduled describes the kinds of scheduled actions.
var scheduled = map[fold.DueKind]string{
	fold.DueEnd: "access ends as planned", fold.DueGrace: "the grace period ends",
	fold.DueOneOff:  "access from a one-off purchase ends",
	fold.DueEnding:  "sends the e-mail that access ends with the grace period",
	fold.DueDunning: "sends payment reminder",
	fold.DueRenewal: "opens a task if the renewal is not confirmed",
	fold.DueAddOn:   "opens a task if the account has no plan",
	fold.DueSettle:  "opens a task if the provider has not confirmed it as active",
	fold.DueBook:    "books the payment, refund or dispute, unless it is booked",
	fold.DueKeep:    "opens a task to release the workspace",
	fold.DueHold:    "updates the workspace after a hold began or ended",
	fold.DueRefold:  "updates the workspace after pawl corrected its data",
	fold.DueChanged: "sends the e-mail about the changed access",
}
