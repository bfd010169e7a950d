package tables

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/billing"
)

// Account is an account: what it may use and why, and what is known of it, part by part.
func Account(acc *account.Account) [][][]string {
	head := [][]string{{"account", acc.ID + " (" + acc.Mode + ")"}}
	if acc.Customer != "" {
		head = append(head, []string{"customer", acc.Customer + " at " + acc.Provider})
	}
	head = append(head, []string{"access", accessOf(acc.Access)})
	if len(acc.Access.Features) > 0 {
		head = append(head, []string{"features", strings.Join(acc.Access.Features, ", ")})
	}
	head = append(head, whyOf(acc, time.Now())...)
	head = append(head, []string{"workspace", workspaceOf(acc)})
	return [][][]string{head, subscriptions(acc.Subscriptions), history(acc.History), invoices(acc), claims(acc.Claims),
		entries(acc.Entries), due(acc.Due), Tasks(acc.Tasks)}
}

// history lists the changes of the account's access.
func history(changes []account.Change) [][]string {
	rows := [][]string{{"ACCESS CHANGED", "FROM", "TO", "WHY", "BY"}}
	for _, c := range changes {
		from := ""
		if c.Before != nil {
			from = usesOf(*c.Before)
		}
		rows = append(rows, []string{output.Time(c.At), from, usesOf(c.After), c.Why, c.Event})
	}
	return rows
}

// usesOf is access in a few words.
func usesOf(x account.Access) string {
	if x.Plan == "" {
		return x.State
	}
	return x.State + ": " + operator.Uses(x.Plan, x.Quantity)
}

// whyOf says what gives an account its access, or why nothing does.
func whyOf(acc *account.Account, now time.Time) (rows [][]string) {
	label := "because"
	if acc.Access.Held {
		label = "held back"
	}
	for _, why := range operator.Reasons(acc, now, output.Date) {
		rows = append(rows, []string{label, why.Object + " " + why.Says + by(why.Event)})
	}
	return rows
}

func accessOf(x account.Access) string {
	if x.Version == 0 {
		return "none: nothing was ever granted"
	}
	text := usesOf(x)
	if x.Held {
		text += "; held back by a hold on the whole account"
	}
	return text + " (version " + strconv.FormatInt(x.Version, 10) + ")"
}

// Plan is a plan and how many of it, "" for none.
func Plan(plan string, quantity int64) string {
	if plan == "" {
		return ""
	}
	return operator.Uses(plan, quantity)
}

// by names the event that something follows from, where one told of it.
func by(event string) string {
	if event == "" {
		return ""
	}
	return ", by " + event
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
	text += " (version " + strconv.FormatInt(w.Version, 10) + ", since " + output.Time(w.UpdatedAt) + ")"
	if w.Version < acc.Access.Version {
		text += ", version " + strconv.FormatInt(acc.Access.Version, 10) + " is not there yet"
	}
	return text
}

func subscriptions(subscriptions []account.Subscription) [][]string {
	rows := [][]string{{"SUBSCRIPTION", "STATUS", "PLAN", "PERIOD ENDS", "NOTE", "BY"}}
	for _, s := range subscriptions {
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
		rows = append(rows, []string{s.ID, cmp.Or(s.Status, "unknown"), Plan(s.Plan, s.Quantity),
			output.Date(s.PeriodEnd),
			strings.Join(notes, "; "), s.Because})
	}
	return rows
}

func invoices(acc *account.Account) [][]string {
	rows := [][]string{{"INVOICE", "NUMBER", "STATUS", "DUE", "PAID", "NOTE", "BY"}}
	for _, i := range acc.Invoices {
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
		rows = append(rows, []string{i.ID, i.Number, i.Status, stripe.Money(i.Due, i.Currency), output.Date(i.PaidAt),
			strings.Join(notes, "; "), i.Because})
	}
	if acc.MoreInvoices {
		rows = append(rows, []string{"older ones are not shown"})
	}
	return rows
}

func entries(entries []account.Entry) [][]string {
	rows := [][]string{{"BOOKED", "ENTRY", "OBJECT", "AMOUNT", "REFERENCE"}}
	for _, e := range entries {
		rows = append(rows, []string{output.Time(e.At), e.Kind, e.Object, stripe.Money(e.Amount, e.Currency),
			e.Reference})
	}
	return rows
}

func claims(claims []account.Claim) [][]string {
	rows := [][]string{{"CLAIM", "KIND", "STATUS", "INVOICE", "AMOUNT"}}
	for _, c := range claims {
		rows = append(rows, []string{c.ID, strings.ReplaceAll(c.Kind, "_", " "), c.Status, c.Invoice,
			stripe.Money(c.Amount, c.Currency)})
	}
	return rows
}

func due(due []account.Due) [][]string {
	rows := [][]string{{"DUE", "WHAT", "OBJECT", "BY"}}
	for _, d := range due {
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
		rows = append(rows, []string{output.Date(&d.At), what, d.Object, d.Event})
	}
	return rows
}
