package timeline

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Due is a scheduled action that an event has caused.
type Due struct {
	At time.Time `json:"due_at"`
	// Kind is the kind of the action, see fold.DueKind.
	Kind   string `json:"kind"`
	Object string `json:"object"`
}

// String describes the action in words.
func (d Due) String() string {
	return map[string]string{
		"end": "access ends if its planned end is still the same", "grace": "the grace period ends",
		"one_off": "access from a one-off purchase ends",
		"ending":  "sends the e-mail that access ends with the grace period",
		"dunning": "sends a payment reminder",
		"settle":  "opens a task if Stripe has not confirmed that the subscription is active",
		"renewal": "opens a task if Stripe has not confirmed the renewal",
		"add_on":  "opens a task if the account still has no plan",
		"book":    "books the payment if no event has shown its purpose",
		"keep":    "opens a task to release the workspace",
		"hold":    "updates the workspace after a hold began or ended",
		"refold":  "updates the workspace after a recomputation",
		"changed": "sends the e-mail about the changed access",
	}[d.Kind] + " (" + d.Object + ")"
}

// dueSQL selects by account, because an account has few rows. The rows of an event without an account have the account
// "".
const dueSQL = `
select at, why as kind, object from due where account = $1 and mode = $2 and receipt_id = $3::uuid order by at, object limit 20`

// DueOf returns the scheduled actions that the event of a receipt has caused, the next one first.
func DueOf(ctx context.Context, db schema.Querier, r Receipt) ([]Due, error) {
	return schema.List[Due](ctx, db, "read scheduled actions of receipt "+r.ID, dueSQL, r.OurAccount, r.Mode, r.ID)
}
