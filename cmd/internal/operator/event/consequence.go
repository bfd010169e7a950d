package event

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// consequences returns the consequences of a decision, in the order of a page.
func consequences(customer, money, emails, undo string) []decide.Consequence {
	return []decide.Consequence{{About: "customer", Text: customer}, {About: "money", Text: money},
		{About: "e-mails", Text: emails}, {About: "can it be undone?", Text: undo}}
}

// explainCancel describes the end of a run. compensates is set if policy.on_workflow_cancel is compensate.
func explainCancel(compensates bool) []decide.Consequence {
	if compensates {
		return consequences(
			"Loses the results of finished steps, for example access: policy.on_workflow_cancel is compensate, so pawl takes back the finished steps.",
			"If the finance entry is booked, a reversing entry cancels it. pawl refunds nothing; a task asks for the refund.",
			"If a receipt was sent, the customer gets a correction.",
			"No. A step that was taken back stays taken back.")
	}
	return consequences(
		"Keeps the results of finished steps. Steps that have not started, for example new access, wait for the decision of a person.",
		"An entry that is booked stays booked. An entry that is not booked waits. pawl refunds nothing.",
		"No further e-mail of this event is sent. An e-mail that is being sent may still arrive.",
		`Yes. "Try the failed steps again" on the page of the event continues it, and repeats no finished step.`)
}

// consequencesOf maps a stage of a review to the consequences of its answers.
var consequencesOf = map[workflows.Stage]map[string][]decide.Consequence{
	workflows.BeforeRun: {
		workflows.UpdateApprove: consequences(
			"Gets the order of the event, for example access, as with every other event of its type.",
			"A payment is booked in finance. pawl charges and refunds nothing.",
			"The usual e-mails are sent, for example a receipt.",
			"Only in part. Access and entries can be corrected later, but an e-mail cannot be called back."),
		workflows.UpdateReject: consequences(
			"Gets nothing from this event.",
			"Nothing is booked, and pawl refunds nothing. If the customer has paid, the money stays with the provider.",
			"No e-mail is sent.",
			`Yes. "Start" on the page of the event processes it later.`),
	},
	workflows.AtLoad: {
		workflows.UpdateApprove: consequences(
			"Gets the order of the event if pawl can read the event now. Otherwise nothing changes, and the review opens again.",
			"A payment is booked in finance if pawl can read the event now. pawl charges and refunds nothing.",
			"The usual e-mails are sent if pawl can read the event now.",
			"Only in part. Access and entries can be corrected later, but an e-mail cannot be called back."),
		workflows.UpdateReject: consequences(
			"Gets nothing from this event.",
			"Nothing is booked, and pawl refunds nothing. If the customer has paid, the money stays with the provider.",
			"No e-mail is sent.",
			`Yes. "Run again" on the page of the event reads it again.`),
	},
	workflows.AtEnd: {
		workflows.UpdateApprove: consequences(
			"Nothing changes: the access stays as it is now.",
			"A payment that is booked stays booked, and pawl refunds nothing. If the customer shall get the money back, refund it at the provider.",
			"No e-mail is sent.",
			"No, the review is closed. You can still suspend the account, or refund the payment at the provider."),
		workflows.UpdateReject: consequences(
			"Loses the access that this order gave, unless another order of the account gives it.",
			`The payment stays booked, and pawl refunds nothing. A task "Refund, or grant the order again" opens.`,
			"If a receipt was sent, the customer gets a correction.",
			`Only in part. "Grant the access again" on the page of the task restores the access. A correction cannot be called back.`),
	},
}

// consequencesOfUnknown maps the answers to the review of a payment without an account to their consequences. Such a
// payment is not booked and gives no access.
var consequencesOfUnknown = map[string][]decide.Consequence{
	workflows.UpdateApprove: consequences(
		"Gets nothing yet, because pawl does not know the account of the payment.",
		"The payment is not booked. It stays in the list of unassigned payments until a person assigns it. pawl refunds nothing.",
		"No e-mail is sent.",
		`Yes. "Assign" in the list of unassigned payments books the payment for an account at any time.`),
	workflows.UpdateReject: consequences(
		"Gets nothing from this payment.",
		"The payment is not booked, and pawl refunds nothing. If the customer shall get the money back, refund it at the provider.",
		"No e-mail is sent.",
		`Only in part. "Assign" in the list of unassigned payments still books the payment for an account.`),
}

// explain describes the answer to the review of an event. It returns nil for any other decision.
func explain(r *timeline.Receipt, verb string) []decide.Consequence {
	review, ok := reviewOf(r)
	if !ok {
		return nil
	}
	if r.ReasonCode == money.ReviewUnknown {
		return consequencesOfUnknown[verb]
	}
	return consequencesOf[review.Stage][verb]
}
