package workflows

// Stage is when a rule asks a person about an event.
type Stage string

// The stages.
const (
	// BeforeRun: the event was kept and not run. Approving runs it, rejecting dismisses it.
	BeforeRun Stage = "before it runs"
	// AtLoad: its run has read it, and has done nothing yet. Approving reads it again and goes on, rejecting ends the
	// run.
	AtLoad Stage = "when it is read"
	// AtEnd: its run has done all its effects. Approving lets them stand, rejecting takes them back.
	AtEnd Stage = "when all else is done"
)

// Review is a question that a rule asks a person, by the code of its reason, and what the answers do.
type Review struct {
	Code  string
	Stage Stage
	// Asks says what the question is.
	Asks string
	// Approve and Reject say what the answer does.
	Approve, Reject string
}

const (
	runsIt    = "runs it, like any other event"
	dismisses = "leaves it: it is ignored, with who and why"
	readAgain = "reads it again and goes on; where nothing was mended, it asks once more"
	endsIt    = "ends its run, and nothing is done"
	stands    = "lets it stand as it is, and closes the review"
	takesBack = "takes back what the event's run has done, where that can be"
)

// Reviews is the only list of the questions that rules ask. Commands show it before they answer, and the documentation
// reads it.
func Reviews() []Review {
	return []Review{
		{"unknown_mode", BeforeRun, "the event says a mode that is neither live nor test",
			runsIt + "; say so only of what you know", dismisses},
		{"suspected_replay", BeforeRun, "it has the bytes of another event, under an ID that nothing signs",
			"runs it as an event of its own: what the first one did is done a second time", dismisses},
		{"id_collision", BeforeRun, "its ID is held by an event of another type, object or time",
			"runs it as an event of its own", dismisses},
		{"suspected_forgery", BeforeRun, "other bytes came before, under what its sender signs",
			"runs these bytes: look first which are the provider's", dismisses},
		{"too_many_events", BeforeRun, "a delivery carries more than 20,000 events, and is kept whole, as one",
			"runs it as one event: it is relayed where its source has consumers", dismisses},
		{"start_refused", BeforeRun, "Temporal did not take the start of its run",
			"starts it again, once what Temporal named is mended", dismisses},
		{"another_run", BeforeRun, "the run that Temporal has under the event's workflow ID is not this receipt's: it is of another receipt, or pawl has not started it", "runs it anew, under a workflow ID of its own and the same idempotency keys; its mail may be sent again", dismisses},

		{"unreadable_payload", AtLoad, "a field is missing, or is not what the provider documents",
			readAgain + ": a newer pawl may understand it", endsIt},
		{"body_changed", AtLoad, "its body was changed in the database after it was received",
			readAgain + ": put the bytes back that were received", endsIt},
		{"thin_event", AtLoad, "the event carries no object, and its source has no `api_key`, or it names none that is asked for",
			readAgain + ": with an api_key of the source, the object is asked for", endsIt},
		{"account_unusable", AtLoad, "what it names as the account cannot be one", readAgain, endsIt},
		{"plan_unusable", AtLoad, "what it names as the plan cannot be one", readAgain, endsIt},
		{"items_incomplete", AtLoad, "it carries only the first of a subscription's items", readAgain, endsIt},
		{"lines_incomplete", AtLoad, "it carries only the first of an invoice's lines",
			readAgain + ": with an api_key of the source, the rest is asked for", endsIt},
		{"body_erased", AtLoad, "its body is not held any more, and it has left no facts", readAgain, endsIt},
		{"no_consumer", AtLoad, "no flow is written for it, and its source relays to nobody",
			readAgain + ": set the source's relay first", endsIt},

		{"paid_after_end", AtEnd, "an invoice was paid after its subscription had ended, or for one that never began",
			stands + ": refund it, or give access by hand", takesBack},
		{"paid_and_void", AtEnd, "an invoice was paid, and voided", stands, takesBack},
		{"paid_then_open", AtEnd, "an invoice was paid, and is open again", stands, takesBack},
		{"import_disagrees", AtEnd, "a subscription has ended by an event, and was alive when it was imported", stands,
			takesBack},
		{"account_unknown", AtEnd, "a session was paid that names neither an account nor a customer",
			stands + ": `pawl money claim` gives it to an account, before or after", takesBack},
	}
}

// ReviewOf returns what the answers to a question do, by the code of its reason; of a code that is not listed, what
// they do at its stage.
func ReviewOf(code string, stage Stage) Review {
	for _, r := range Reviews() {
		if r.Code == code {
			return r
		}
	}
	switch stage {
	case BeforeRun:
		return Review{code, stage, "a rule has kept it from running", runsIt, dismisses}
	case AtLoad:
		return Review{code, stage, "a rule has stopped it before it did anything", readAgain, endsIt}
	}
	return Review{code, AtEnd, "a rule wants a person to review what it came to", stands, takesBack}
}
