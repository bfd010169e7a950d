package stripe

// Codes of a [ReviewError]. They are stored and used in counts and filters.
const (
	// Unreadable: a field is missing or differs from Stripe's documentation.
	Unreadable = "unreadable_payload"
	// Thin: the event contains no object (a thin event of API v2).
	Thin = "thin_event"
	// AccountUnusable: the account in the payload is not a valid account ID.
	AccountUnusable = "account_unusable"
	// PlanUnusable: the subscription's metadata.plan is not a valid plan.
	PlanUnusable = "plan_unusable"
)

// ReviewError means that a person must review an event, because a required field is missing or invalid.
type ReviewError struct {
	// Code is one of the codes of this package.
	Code string
	// Field is the invalid field.
	Field string
	// Reason is a text for people that names the field. It contains no payload data and can be stored.
	Reason string
}

func (e *ReviewError) Error() string { return e.Code + ": " + e.Reason }

func review(code, field, reason string) *ReviewError {
	return &ReviewError{code, field, field + ": " + reason}
}
