package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/workflows/plan"
)

// Stage is the point at which a rule opens a review of an event.
type Stage string

// The stages.
const (
	// BeforeRun: the event was stored and did not run. Approve runs the event, and reject dismisses it.
	BeforeRun Stage = "before it runs"
	// AtLoad: the run has read the event and executed no effect. Approve reads the event again and continues, and
	// reject ends the run.
	AtLoad Stage = "when it is read"
	// AtEnd: the run has executed all effects of the event. The review is about an object of the event. Approve changes
	// nothing, and reject withholds the grant of the object.
	AtEnd Stage = "after all effects"
)

// Review describes a question to a person and the results of both answers. Its ID is the reason code of the parked
// event.
type Review struct {
	Code  string
	Stage Stage
	// Asks describes why the event needs a review.
	Asks string
	// Approve and Reject describe the result of each answer.
	Approve, Reject string
}

const (
	runsIt    = "runs the event as usual"
	dismisses = "ignores the event, and stores who decided and why"
	readAgain = "reads the event again and continues; if the cause remains, the review opens again"
	endsIt    = "ends the run of the event without effects"
	keepsIt   = "keeps the object as it is, and closes the review"
	withholds = "withholds the grant of the object, corrects its receipt if one was sent, and opens a task for the refund; the payment stays booked"
)

// Reviews returns all questions. Commands and the documentation show them.
func Reviews() []Review {
	return []Review{
		{"unknown_mode", BeforeRun, "the mode of the event is neither live nor test",
			runsIt + "; approve only an event that you know", dismisses},
		{"suspected_replay", BeforeRun, "it has the same bytes as another event, but another unsigned ID",
			"runs it as an event of its own: the effects of the first event happen a second time", dismisses},
		{"id_collision", BeforeRun, "another event with the same ID has another type, object or time",
			"runs it as an event of its own", dismisses},
		{"suspected_forgery", BeforeRun, "another body arrived earlier with the same signed checksum",
			"runs these bytes: check first which are genuine", dismisses},
		{"too_many_events", BeforeRun, "a delivery contains more than 20,000 events, and is stored as one",
			"runs it as one event, which is relayed if its source has destinations", dismisses},
		{"start_refused", BeforeRun, "Temporal refused to start its run",
			"starts it again; fix the error that Temporal named first", dismisses},
		{"foreign_run", BeforeRun, "the run with the event's workflow ID belongs to another receipt, or pawl did not start it", "runs it under a new workflow ID and the same idempotency keys; its e-mail may be sent again", dismisses},

		{"unreadable_payload", AtLoad, "a field is missing, or differs from the provider's documentation",
			readAgain + ". A newer version of pawl may be able to read it", endsIt},
		{"body_changed", AtLoad, "its body was changed in the database after it was received",
			readAgain + ". Restore the received bytes first", endsIt},
		{"thin_event", AtLoad, "the event contains no object, and its source has no `api_key`, or the event names no object that can be fetched",
			readAgain + ". Set the `api_key` of the source first", endsIt},
		{"account_unusable", AtLoad, "its account is not a valid account ID", readAgain, endsIt},
		{"plan_unusable", AtLoad, "its plan is not a valid plan", readAgain, endsIt},
		{"body_erased", AtLoad, "its payload was deleted, by `retention.payloads` or by `pawl forget`, and pawl has no facts of it",
			readAgain + ". Only restored bytes help: reject it, and use `pawl reconcile`", endsIt},
		{activities.CodeFlowFault, AtLoad,
			"the flow of the configuration cannot be evaluated: a field is missing, or a value has another type",
			readAgain + ". Correct the flow first", endsIt},
		{"no_destination", AtLoad, "no flow handles its type, and its source has no destinations",
			readAgain + ". Add the source to a destination first", endsIt},

		{"paid_after_end", AtEnd, "an invoice was paid after its subscription had ended, or the subscription never began",
			keepsIt + ". Refund it, or grant access by hand", withholds},
		{"paid_and_void", AtEnd, "an invoice was both paid and voided", keepsIt, withholds},
		{"paid_then_open", AtEnd, "an invoice was paid and is now open", keepsIt, withholds},
		{"import_disagrees", AtEnd, "an event ended a subscription that was active at its import", keepsIt,
			withholds},
		{"account_unknown", AtEnd, "a paid session names neither an account nor a customer",
			keepsIt + " without an account. To assign it, use `pawl payments assign` instead: it also closes the review", withholds},
	}
}

// ReviewOf returns the review with a reason code. For an unknown code, it returns a general review of the stage.
func ReviewOf(code string, stage Stage) Review {
	for _, r := range Reviews() {
		if r.Code == code {
			return r
		}
	}
	switch stage {
	case BeforeRun:
		return Review{code, stage, "a rule prevented its run", runsIt, dismisses}
	case AtLoad:
		return Review{code, stage, "a rule stopped it before its effects", readAgain, endsIt}
	}
	return Review{code, AtEnd, "a rule requires a review of its result", keepsIt, withholds}
}

// ask opens a review and waits for the decision of a person. Approve and skip change nothing, and reject and compensate
// withhold the grant of the object; see [AtEnd]. The ledger stores the answer. While the review is open, the runs of
// other events of the object do not wait; after it is closed, they apply the answer.
func (w *billingFlow) ask(r *plan.Review) (whyUndo string, err error) {
	if r == nil {
		return "", nil
	}
	task := activities.Task{Kind: activities.TaskReview, Mode: w.in.Mode, Object: r.Object, Title: r.Reason}
	open, answered := newStep(plan.ReviewTask.Step(r.Object, task)), newStep(plan.CloseReview.Step(r.Object, task))
	whyUndo, err = w.settle(open)
	switch {
	case err == nil && open.result.State == effect.Compensated:
		return "", w.reject(r, open, "it was rejected before")
	case err != nil || whyUndo != "" || open.skipped || open.result.By != "":
		return whyUndo, err
	}
	if w.in.Replay != nil && open.result.State == effect.AlreadyDone {
		if _, err := w.refreshSteps([]*step{answered}); err != nil {
			return "", err
		}
		if answered.settled() {
			w.begin([]*step{answered})
			return "", nil
		}
	}
	w.settling, w.takes = nil, []string{UpdateApprove, UpdateSkip, UpdateReject}
	if !w.irreversible {
		w.takes = append(w.takes, UpdateCompensate)
	}
	d, err := w.park(needsReview, reason{r.Code, r.Reason})
	if err != nil {
		return "", err
	}
	switch why, err := w.follow(d, nil); {
	case err != nil:
		return "", err
	case why != "":
		return "", w.reject(r, open, why)
	}
	return w.settle(answered)
}

// reject closes the review of an object and withholds the grant of the object. If a receipt was e-mailed, it e-mails a
// correction. The payment stays booked, because the cash has moved; a refund is booked separately.
func (w *billingFlow) reject(r *plan.Review, open *step, why string) error {
	w.rejected = why
	task, _ := open.Input.(activities.Task)
	rejected := newStep(plan.RejectReview.Step(r.Object, task))
	rejected.Compensates = open.Key
	steps := []*step{rejected, newStep(plan.Withhold(r.Object+plan.OnceWithheld, r.Withholding))}
	if r.Receipt != nil {
		receipt := newStep(r.Receipt)
		if _, err := w.refreshSteps([]*step{receipt}); err != nil {
			return err
		}
		if receipt.result.MayHaveHappened() {
			steps = append(steps, newStep(r.Correction))
		}
	}
	w.undoing, w.undone = true, true
	_, err := w.settle(steps...)
	w.undoing, w.irreversible = false, true
	return err
}
