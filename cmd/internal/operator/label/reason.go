package label

import (
	"regexp"
	"slices"
	"strings"
)

// Reason returns the label of a reason code: a sentence without a period, or "" for an unknown code.
func Reason(code string) string { return reasons[code] }

// Explain returns a stored reason for people. A reason is a code, or a code, ": " and words. Explain replaces the code,
// and keeps the words. For a reason code of steps, effect_…, it keeps
// only the labels of the steps. A reason
// without a known code stays as it is.
func Explain(reason string) string {
	code, rest, _ := strings.Cut(reason, ": ")
	text, known := reasons[code]
	switch {
	case !known:
		return reason
	case strings.HasPrefix(code, "effect_") && stepReason.MatchString(rest):
		rest = stepsOf(rest)
	}
	if rest == "" {
		return text
	}
	return text + ": " + rest
}

// stepReason matches the reason of a run that is parked because of its steps: "finance-export is failed: cause; …".
var stepReason = regexp.MustCompile(`(?:^|; )([a-z]+(?:-[a-z]+)*) (?:is|was) (?:failed|uncertain|refused)\b`)

// stepsOf returns the labels of the steps in the reason of a parked run.
func stepsOf(words string) string {
	var names []string
	for _, found := range stepReason.FindAllStringSubmatch(words, -1) {
		if name := KindOf(found[1]).Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Clause is [Explain] for the middle of a sentence: "paid after the subscription had ended".
func Clause(reason string) string {
	text := Explain(reason)
	for _, word := range []string{"It ", "Its ", "A ", "An ", "Another ", "The ", "No ", "Paid"} {
		if strings.HasPrefix(text, word) {
			return strings.ToLower(text[:1]) + text[1:]
		}
	}
	return text
}

// reasons has an entry for each reason code of an event.
var reasons = map[string]string{
	"mode_ignored":       "The source does not accept events of this mode",
	"account_ignored":    "The source does not accept this connected account",
	"type_ignored":       "The source does not use events of this type",
	"account_not_mapped": "No account is linked to this connected account",
	"product_ignored":    "Its prices are on the list of ignored prices",
	"flow_condition":     "The condition of its flow is false",
	"not_selected":       "No destination selects it",
	"before_effects":     "It occurred before effects began, and its effects are withheld",
	"dismissed":          "A person decided to do nothing",

	"unknown_mode":          "It is neither live nor test",
	"suspected_replay":      "It may be a copy: another event has the same content",
	"id_collision":          "Another event has the same ID and other content",
	"suspected_forgery":     "It may be forged: other content has the same signature",
	"too_many_events":       "A delivery contained too many events, and is stored as one",
	"run_terminated":        "Its run was ended in Temporal before it finished",
	"workflow_task_failing": "No worker can continue its run",
	"foreign_run":           "Another run uses its workflow ID",
	"start_refused":         "Temporal refused to start its run",

	"unreadable_payload": "Its content cannot be read",
	"body_changed":       "Its content was changed in the database",
	"body_erased":        "Its content was deleted",
	"thin_event":         "It contains no object, and pawl cannot fetch the object",
	"account_unusable":   "It names an account that is not valid",
	"plan_unusable":      "It names a plan that is not valid",
	"flow_fault":         "Its flow cannot be evaluated",
	"no_destination":     "It has no flow and no destination",

	"paid_after_end":   "Paid after the subscription had ended",
	"paid_and_void":    "The invoice was paid and voided",
	"paid_then_open":   "The invoice was paid and is open again",
	"import_disagrees": "The event ends a subscription that was active at its import",
	"account_unknown":  "Paid, and the customer is unknown",
	"unknown_price":    "No plan has its price",

	"effect_failed":    "A step failed",
	"effect_uncertain": "It is unclear whether a step happened",
	"effect_refused":   "A connected system refused a step",
	"object_not_found": "Stripe does not return the object",
	"undo_failed":      "A step could not be taken back",
	"cancelled":        "Its run was cancelled",
	"compensated":      "Its steps were taken back",
	"withheld":         "An order or a change was refused, and is not granted",

	"sink_down":            "A connected system is down",
	"sink_busy":            "A connected system is busy",
	"waiting_for_workflow": "A workflow of yours runs",
	"workflow_stuck":       "A workflow of yours does not continue",
	"waiting_for_entry":    "An earlier finance entry is not booked yet",
	"paused":               "A person paused it",
}
