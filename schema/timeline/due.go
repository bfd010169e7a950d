package timeline

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Due is what the clock will do because of an event.
type Due struct {
	At time.Time `json:"at"`
	// Why is the step of the row, as billing.Why names it.
	Why    string `json:"why"`
	Object string `json:"object"`
}

// String says in words what will happen.
func (d Due) String() string {
	return map[string]string{
		"end": "the access that was to end by then ends", "grace": "the time of grace is over",
		"one_off": "what was bought once ends",
		"ending":  "the customer is told that access ends with the grace",
		"dunning": "the customer is reminded",
		"settle":  "a person is asked, unless an event tells before that it is active",
		"renewal": "a person is asked, unless an event tells before that it is renewed",
		"add_on":  "a person is asked, unless the account has a plan by then",
		"book":    "the payment is booked, unless an event tells before what it was for",
		"keep":    "a person is asked to release the workspace",
		"hold":    "the workspace follows a hold, or its end",
		"refold":  "the workspace follows what was folded anew",
		"changed": "the customer is told what it is now",
		"ended":   "the customer is told that it has ended",
		"taken":   "the customer is told that access was taken",
	}[d.Why] + " (" + d.Object + ")"
}

// dueSQL selects by the account, which has few rows. An event without an account has its rows under account "".
const dueSQL = `
select at, why, object from due where account = $1 and mode = $2 and receipt_id = $3::uuid order by at, object limit 20`

// DueOf returns what the clock will do because of a receipt's event, the next first.
func DueOf(ctx context.Context, db schema.Querier, r Receipt) ([]Due, error) {
	return schema.List[Due](ctx, db, "read what is due of receipt "+r.ID, dueSQL, r.OurAccount, r.Mode, r.ID)
}
