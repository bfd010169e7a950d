package timeline

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Due is a scheduled action that follows from an event.
type Due struct {
	At time.Time `json:"at"`
	// Why is the step of the row, as billing.Why names it.
	Why    string `json:"why"`
	Object string `json:"object"`
}

// String describes the action in words.
func (d Due) String() string {
	return map[string]string{
		"end": "access ends if it was to end by then", "grace": "the grace period ends",
		"one_off": "access from a one-off purchase ends",
		"ending":  "sends the e-mail that access ends with the grace period",
		"dunning": "sends a payment reminder",
		"settle":  "opens a task if Stripe has not confirmed that the subscription is active",
		"renewal": "opens a task if Stripe has not confirmed the renewal",
		"add_on":  "opens a task if the account has no plan by then",
		"book":    "books the payment if no event has named its purpose",
		"keep":    "opens a task to release the workspace",
		"hold":    "updates the workspace after a hold, or its end",
		"refold":  "updates the workspace after a recomputation",
		"changed": "sends the e-mail about the changed access",
		"ended":   "sends the e-mail that access has ended",
		"taken":   "sends the e-mail that access was withdrawn",
	}[d.Why] + " (" + d.Object + ")"
}

// dueSQL selects by the account, which has few rows. An event without an account has its rows under account "".
const dueSQL = `
select at, why, object from due where account = $1 and mode = $2 and receipt_id = $3::uuid order by at, object limit 20`

// DueOf returns the scheduled actions that follow from a receipt's event, the next first.
func DueOf(ctx context.Context, db schema.Querier, r Receipt) ([]Due, error) {
	return schema.List[Due](ctx, db, "read scheduled actions of receipt "+r.ID, dueSQL, r.OurAccount, r.Mode, r.ID)
}
