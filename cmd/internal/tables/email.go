package tables

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Emails lists e-mails to customers.
func Emails(emails []timeline.Email) output.Table {
	return output.Rows("WHEN|E-MAIL|ACCOUNT|ABOUT|OUTCOME|NOTE|EVENT", emails, func(e timeline.Email) []any {
		return []any{&e.ListedAt, label.Email(e.Key), accountLink(e.Account, e.Mode),
			aboutLink(e.Number, e.Object, e.Account), output.Badge(e.Outcome), emailNote(e), eventLink(e.Event)}
	})
}

// aboutLink links to the invoice or the object of a row. It omits an object that is the account itself.
func aboutLink(number, object, account string) any {
	name := cmp.Or(number, object)
	if name == account {
		name = ""
	}
	return objectLink(name)
}

// emailNote explains the outcome of an e-mail, and what happens next.
func emailNote(e timeline.Email) string {
	answer := label.Answer("email", e.Reason)
	var notes []string
	switch e.Outcome {
	case "sent":
		if e.PossiblyTwice {
			notes = append(notes, "The customer may have got it twice: it was sent again after an unclear attempt")
		}
		if e.Corrected {
			notes = append(notes, "A correction followed, because the payment was reversed")
		}
		notes = append(notes, answer) // a person sent it by hand
	case "unclear":
		notes = []string{"The mail server did not confirm it: it may have arrived"}
	case "waiting":
		notes = []string{cmp.Or(answer, "An attempt is in progress")}
		if e.Attempts > 1 && !e.Parked {
			notes = append(notes, "tried "+output.Plural(e.Attempts, "time")+", last at "+output.Date(&e.LastAttemptAt))
		}
	case "taken_back":
		notes = []string{"Cancelled: the payment was reversed before the mail server confirmed it", answer}
	default:
		notes = []string{answer}
	}
	if e.MayHaveArrived {
		notes = append(notes, "the mail server did not confirm an earlier attempt: it may have arrived")
	}
	if e.Parked {
		notes = append(notes, "its event waits for a decision")
	}
	return strings.Join(slices.DeleteFunc(notes, func(note string) bool { return note == "" }), "; ")
}
