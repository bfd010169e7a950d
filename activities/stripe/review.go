package stripe

// The codes of a [ReviewError]. They are stored, counted and filtered by.
const (
	// Unreadable says that a field is missing, or is not what Stripe documents.
	Unreadable = "unreadable_payload"
	// Thin says that the event carries no object: a thin event (API v2).
	Thin = "thin_event"
	// AccountUnusable says that what the payload names as our account cannot be one.
	AccountUnusable = "account_unusable"
	// PlanUnusable says that the subscription's metadata.plan cannot be a plan.
	PlanUnusable = "plan_unusable"
	// ItemsIncomplete says that the event carries only the first of a subscription's items.
	ItemsIncomplete = "items_incomplete"
)

// ReviewError says why a person must review an event: its payload lacks a needed field, and reading it again
// would not help.
type ReviewError struct {
	// Code is one of the codes of this package.
	Code string
	// Field is the one that cannot be read.
	Field string
	// Reason is for people, and names the field. It can be stored.
	Reason string
}

func (e *ReviewError) Error() string { return e.Code + ": " + e.Reason }

func review(code, field, reason string) *ReviewError {
	return &ReviewError{code, field, field + ": " + reason}
}
