package label

import "strings"

// Kind is a kind of effect in words.
type Kind struct {
	// Name is the label in tables. Subject is the subject of a sentence, and Done its predicate if the effect is done.
	Name, Subject, Done string
	// Money is set if the amount of the event belongs to the subject: "the finance entry of 49.00 USD".
	Money bool
}

// KindOf returns the words for a kind of effect. A kind of another release has its code as the name.
func KindOf(code string) Kind {
	if k, known := kinds[code]; known {
		return k
	}
	name := strings.ReplaceAll(code, "-", " ")
	return Kind{Name: upper(name), Subject: "the effect " + name, Done: "done"}
}

// StepOf returns the words for one effect with its ledger key. A step of a flow has the name from the configuration,
// and a delivery the name of its destination; both are parts of the key.
func StepOf(code, key string) Kind {
	k := KindOf(code)
	parts := strings.Split(key, ":")
	switch code {
	case "flow-request", "undo-flow-request", "flow-workflow", "undo-flow-workflow", "flow-task", "cancel-flow-task":
		// <kind>:<provider>:<mode>:<flow>:<step>:<key>
		if len(parts) > 5 {
			k.Name += ": " + parts[4]
			k.Subject = strings.TrimSuffix(k.Subject, " of the flow") + " " + parts[4] + " of the flow " + parts[3]
		}
	case "relay":
		if last := len(parts) - 1; last > 0 { // the key ends with the destination
			k.Name += ": " + parts[last]
			k.Done += " to " + parts[last]
		}
	}
	return k
}

// kinds has an entry for each kind of effect.
var kinds = map[string]Kind{
	"fetch-object":   {"Fetch from Stripe", "the object", "fetched from Stripe", false},
	"apply-facts":    {"Billing state", "the billing state", "updated", false},
	"withhold-grant": {"Access withdrawn", "the access", "withdrawn", false},
	"apply-due":      {"Scheduled action", "the scheduled action", "executed", false},

	"provision-workspace": {"Workspace", "the workspace", "ready", false},
	"align-workspace":     {"Workspace update", "the workspace", "up to date", false},

	"finance-export":        {"Booking", "the finance entry", "booked", true},
	"reverse-finance-entry": {"Reversal", "the reversal", "booked", true},
	"refund-entry":          {"Refund booking", "the refund", "booked", true},
	"refund-reversal-entry": {"Reversed refund", "the reversal of the refund", "booked", true},
	"credit-entry":          {"Credit booking", "the credit note", "booked", true},
	"credit-reversal-entry": {"Reversed credit", "the reversal of the credit note", "booked", true},
	"dispute-entry":         {"Dispute booking", "the dispute", "booked", true},
	"finance-correction":    {"Correction", "the correction", "booked", true},

	"order-email":                 {"Order e-mail", "the order confirmation", "sent", false},
	"receipt-email":               {"Receipt", "the receipt", "sent", false},
	"correction-notice":           {"Correction e-mail", "the correction e-mail", "sent", false},
	"subscription-ended-notice":   {"Subscription ended e-mail", "the e-mail about the end", "sent", false},
	"access-ending-notice":        {"Access ends e-mail", "the e-mail that access ends soon", "sent", false},
	"access-ended-notice":         {"Access ended e-mail", "the e-mail that access has ended", "sent", false},
	"action-required-notice":      {"Payment action e-mail", "the e-mail about the payment", "sent", false},
	"dunning-notice":              {"Payment reminder", "the payment reminder", "sent", false},
	"trial-ending-notice":         {"Trial ends e-mail", "the e-mail about the end of the trial", "sent", false},
	"subscription-changed-notice": {"Plan changed e-mail", "the e-mail about the new plan", "sent", false},

	"onboarding-task":        {"Onboarding task", "the onboarding task", "opened", false},
	"cancel-onboarding-task": {"Onboarding task closed", "the onboarding task", "closed", false},
	"reconcile-task":         {"Comparison task", "the task to compare with Stripe", "opened", false},
	"account-task":           {"Account task", "the task to link the account", "opened", false},
	"release-task":           {"Release task", "the task to release the workspace", "opened", false},
	"review":                 {"Review", "the review", "opened", false},
	"close-review":           {"Review closed", "the review", "closed", false},
	"reject-review":          {"Review rejected", "the rejection", "recorded", false},

	"relay":              {"Relay", "the event", "relayed", false},
	"flow-request":       {"Request", "the request of the flow", "sent", false},
	"undo-flow-request":  {"Request undone", "the request of the flow", "undone", false},
	"flow-workflow":      {"Workflow", "the workflow of the flow", "completed", false},
	"undo-flow-workflow": {"Workflow undone", "the workflow of the flow", "undone", false},
	"flow-task":          {"Task", "the task", "opened", false},
	"cancel-flow-task":   {"Task closed", "the task", "closed", false},
}
