package tables

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/billing"
)

// Account is an account, part by part: its access and the reason, its objects, and its tasks.
func Account(acc *account.Account) [][][]string {
	head := [][]string{{"account", acc.ID + " (" + acc.Mode + ")"}}
	if acc.Customer != "" {
		head = append(head, []string{"customer", acc.Customer + " at " + acc.Provider})
	}
	head = append(head, []string{"access", accessOf(acc.Access)})
	if len(acc.Access.Features) > 0 {
		head = append(head, []string{"features", strings.Join(acc.Access.Features, ", ")})
	}
	label := "because"
	if acc.Access.Held {
		label = "held back"
	}
	for _, why := range operator.Reasons(acc, time.Now(), output.Date) {
		says := why.Object + " " + why.Says
		if why.Event != "" {
			says += ", by " + why.Event
		}
		head = append(head, []string{label, says})
	}
	head = append(head, []string{"workspace", workspaceOf(acc)})
	return [][][]string{head, subscriptions(acc.Subscriptions), history(acc.History), invoices(acc), claims(acc.Claims),
		entries(acc.Entries), due(acc.Due), Tasks(acc.Tasks)}
}

func history(changes []account.Change) [][]string {
	return output.Rows("ACCESS CHANGED|FROM|TO|WHY|BY", changes, func(c account.Change) []any {
		from := ""
		if c.Before != nil {
			from = usesOf(*c.Before)
		}
		return []any{c.At, from, usesOf(c.After), c.Why, c.Event}
	})
}

func usesOf(x account.Access) string {
	if x.Plan == "" {
		return x.State
	}
	return x.State + ": " + operator.Uses(x.Plan, x.Quantity)
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

// plan is a plan and how many of it, "" for none.
func plan(plan string, quantity int64) string {
	if plan == "" {
		return ""
	}
	return operator.Uses(plan, quantity)
}

func workspaceOf(acc *account.Account) string {
	w := acc.Workspace
	if w == nil {
		return "none"
	}
	text := w.State
	if w.Plan != "" {
		text += ": " + operator.Uses(w.Plan, w.Quantity)
	}
	text += fmt.Sprintf(" (version %d, since %s)", w.Version, output.Time(w.UpdatedAt))
	if w.Version < acc.Access.Version {
		text += fmt.Sprintf(", version %d is not there yet", acc.Access.Version)
	}
	return text
}

func subscriptions(list []account.Subscription) [][]string {
	return output.Rows("SUBSCRIPTION|STATUS|PLAN|PERIOD ENDS|NOTE|BY", list, func(s account.Subscription) []any {
		var notes []string
		for _, n := range []struct {
			text string
			is   bool
		}{
			{"ended " + output.Date(s.EndedAt), s.EndedAt != nil},
			{"past due since " + output.Date(s.PastDueSince), s.PastDueSince != nil && s.EndedAt == nil},
			{"ends " + output.Date(s.EndsAt), s.EndsAt != nil && s.EndedAt == nil},
			{"what it grants is taken back", s.Withheld},
			{"held", s.Held},
			{"the order of its events is not certain", s.Uncertain},
		} {
			if n.is {
				notes = append(notes, n.text)
			}
		}
		return []any{s.ID, cmp.Or(s.Status, "unknown"), plan(s.Plan, s.Quantity), s.PeriodEnd,
			strings.Join(notes, "; "), s.Because}
	})
}

func invoices(acc *account.Account) [][]string {
	rows := output.Rows("INVOICE|NUMBER|STATUS|DUE|PAID|NOTE|BY", acc.Invoices, func(i account.Invoice) []any {
		var notes []string
		if i.Refunded > 0 {
			notes = append(notes, stripe.Money(i.Refunded, i.Currency)+" refunded")
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
		return []any{i.ID, i.Number, i.Status, stripe.Money(i.Due, i.Currency), i.PaidAt, strings.Join(notes, "; "),
			i.Because}
	})
	if acc.MoreInvoices {
		rows = append(rows, []string{"older ones are not shown"})
	}
	return rows
}

func entries(entries []account.Entry) [][]string {
	return output.Rows("BOOKED|ENTRY|OBJECT|AMOUNT|REFERENCE", entries, func(e account.Entry) []any {
		return []any{e.At, e.Kind, e.Object, stripe.Money(e.Amount, e.Currency), e.Reference}
	})
}

func claims(claims []account.Claim) [][]string {
	return output.Rows("CLAIM|KIND|STATUS|INVOICE|AMOUNT", claims, func(c account.Claim) []any {
		return []any{c.ID, strings.ReplaceAll(c.Kind, "_", " "), c.Status, c.Invoice,
			stripe.Money(c.Amount, c.Currency)}
	})
}

func due(due []account.Due) [][]string {
	return output.Rows("DUE|WHAT|OBJECT|BY", due, func(d account.Due) []any {
		what := map[billing.Why]string{
			billing.DueEnd: "ends, as was planned", billing.DueGrace: "the grace ends",
			billing.DueOneOff:  "the time that was paid for ends",
			billing.DueEnding:  "the customer is told that access ends with the grace",
			billing.DueDunning: "the customer is reminded, step " + strconv.Itoa(d.Step),
			billing.DueRenewal: "a person is asked why it is not renewed",
			billing.DueAddOn:   "a person is asked what it adds to",
			billing.DueSettle:  "a person is asked whether it is active",
			billing.DueBook:    "it is booked, where nothing tells what it was paid for",
			billing.DueKeep:    "a person is asked to release the workspace",
			billing.DueHold:    "the workspace follows a hold, or its end",
			billing.DueRefold:  "the workspace follows what was folded anew",
			billing.DueChanged: "the customer is told what it is now",
			billing.DueEnded:   "the customer is told that it has ended",
			billing.DueTaken:   "the customer is told that access was taken",
		}[d.Why]
		return []any{&d.At, what, d.Object, d.Event}
	})
}
