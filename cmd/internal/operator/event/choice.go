package event

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/plan"
)

// Choices lists the commands that work in the current state of the event. id names the event in the commands.
func Choices(o *decide.Operator, id string, r *timeline.Receipt) []decide.Choice {
	switch s := situationOf(o, r); s {
	case waiting, working:
		return waitingChoices(o, id, r)
	case parked:
		return parkedChoices(o, id, r)
	case beforeRun:
		asks := workflows.ReviewOf(r.ReasonCode, workflows.BeforeRun)
		return []decide.Choice{
			o.Choose(workflows.UpdateApprove, id, "", asks.Approve),
			o.Choose(workflows.UpdateReject, id, "", asks.Reject), o.Choose(verbRun, id, "", "the same as approve"),
		}
	case ignored:
		return []decide.Choice{o.Choose(verbRun, id, "", "processes it")}
	case closed:
		choices := []decide.Choice{replayChoice(o, id, r)}
		if r.Status == string(receipt.Ignored) {
			choices = append(choices, o.Choose(verbRun, id, "", "the same"))
		}
		return choices
	case ended, stuck:
		return []decide.Choice{replayChoice(o, id, r)}
	}
	return nil
}

// Recommended returns the decision that the state of the event requires, or nil, and the other decisions. A review and
// an unclear effect have no obvious answer. Recommended omits a decision that has the same effect as an earlier one.
func (e *Evidence) Recommended() (first *decide.Choice, others []decide.Choice) {
	_, review := reviewOf(&e.Receipt)
	required := !review && (e.Parked() || e.Receipt.ReasonCode == receipt.Paused)
	for i := range e.Choices {
		c := &e.Choices[i]
		safe := c.Decision != nil && (c.Decision.Verb == money.Assign.Name || required &&
			(c.Decision.Verb == workflows.UpdateRetry || strings.HasPrefix(c.Decision.Verb, "resume-")))
		switch {
		case strings.HasPrefix(c.Effect, sameAs):
		case safe && first == nil:
			first = c
		default:
			others = append(others, *c)
		}
	}
	return first, others
}

// sameAs begins the description of a decision that has the same effect as another one.
const sameAs = "the same"

// waitingChoices lists the commands about an event that waits for the start of its run or for a sink.
func waitingChoices(o *decide.Operator, id string, r *timeline.Receipt) (choices []decide.Choice) {
	kind, name := decide.Source, r.Source
	unstarted := r.Status == string(receipt.Received)
	if !unstarted {
		_, says, _ := strings.Cut(r.Reason, ": ")
		name, _, _ = strings.Cut(says, " ")
		kind = decide.Sink
	}
	switch {
	case r.ReasonCode == receipt.Paused:
		choices = append(choices, o.Choose("resume-"+kind, name, "", "resumes it and the events that wait for it"))
	case r.ReasonCode == receipt.SinkDown && !strings.HasPrefix(name, plan.SinkDestinations+":"):
		base, _, _ := strings.Cut(name, ":")
		choices = append(choices, decide.Choice{Command: []string{"pawl", "sinks", "check", base},
			Effect: "checks the sink; the run continues automatically when the sink responds"})
	case unstarted:
		choices = append(choices, decide.Choice{Command: []string{"pawl", "doctor"}, Effect: "a running ingress starts the run automatically; this command finds the obstacle"})
	}
	if !unstarted {
		choices = append(choices,
			o.Choose(verbCancel, id, "", "stops the steps that have not started. Finished steps stay, and you can continue the event later. Without it, pawl continues automatically"))
	}
	return choices
}

// mappingChoices adds the command that maps the connected account of an ignored event to the choices about the event.
func mappingChoices(o *decide.Operator, r *timeline.Receipt, others []decide.Choice) []decide.Choice {
	mapping := decide.Choice{Command: []string{"pawl", "rules", "diff"},
		Effect: fmt.Sprintf("shows which accounts change, after you have added the line %q to sources.%s.accounts in the configuration; "+
			"deploy it, and pawl runs the stored events of the connected account", r.Account+": ACCOUNT", r.Source)}
	if slices.Contains(o.Policy.Linked, r.Mode) {
		mapping = decide.Choice{Effect: "maps the connected account to ACCOUNT, your account, and runs its stored events",
			Command: []string{"pawl", "accounts", "link", r.Account, "ACCOUNT", "--mode", r.Mode, "--reason", "REASON"}}
	}
	for i := range others {
		if others[i].Decision != nil && others[i].Decision.Verb == verbReplay {
			others[i].Effect = "runs it again; it is ignored again until the connected account is mapped"
		}
	}
	return append([]decide.Choice{mapping}, others...)
}

// replayChoice returns the choice to replay the event.
func replayChoice(o *decide.Operator, id string, r *timeline.Receipt) decide.Choice {
	does := "runs it again; steps that are done are not repeated"
	switch {
	case r.Status == string(receipt.Compensated):
		does = "runs it again; steps that were taken back stay taken back"
	case r.ReasonCode == receipt.WorkflowTaskFailing:
		does = "ends the run, because its workflow task fails, and runs the event again; steps that are done are not repeated"
	}
	return o.Choose(verbReplay, id, "", does)
}

// workflowOf returns the workflow ID of a receipt. If no run is recorded, it computes the ID.
func workflowOf(r *timeline.Receipt) string {
	if r.WorkflowID != "" {
		return r.WorkflowID
	}
	return decide.InputOf(r).ID()
}

// parkedChoices lists the decisions that the parked run of the event accepts. The run stores them in the receipt.
func parkedChoices(o *decide.Operator, id string, r *timeline.Receipt) (choices []decide.Choice) {
	add := func(verb, effect, does string) { choices = append(choices, o.Choose(verb, id, effect, does)) }
	if r.Waits == nil { // only a manual edit of the row can cause this, because a run always stores its decisions
		add(workflows.UpdateRetry, "", "tries the failed steps again; steps that are done are not repeated")
		add(workflows.UpdateSkip, "", "skips the steps that are not done, and continues")
		return choices
	}
	takes := func(action string) bool { return slices.Contains(r.Waits.Decisions, action) }
	open := r.Waits.Effects
	if asks, ok := reviewOf(r); ok {
		add(workflows.UpdateApprove, "", asks.Approve)
		if takes(workflows.UpdateReject) {
			add(workflows.UpdateReject, "", asks.Reject)
		}
		if takes(workflows.UpdateRetry) {
			add(workflows.UpdateRetry, "", "the same as approve")
			add(workflows.UpdateSkip, "", "the same as reject")
			return choices
		}
		add(workflows.UpdateSkip, "", "the same as approve")
		if takes(workflows.UpdateCompensate) {
			add(workflows.UpdateCompensate, "", "the same as reject")
		}
		return choices
	}
	if takes(workflows.UpdateRetry) {
		does := "tries the failed steps again; steps that are done are not repeated"
		if slices.ContainsFunc(open, func(e receipt.OpenEffect) bool { return e.Uncertain }) {
			does += "; unclear steps are not repeated"
		}
		add(workflows.UpdateRetry, "", does)
		for _, e := range open {
			if len(open) > 1 && !e.Uncertain {
				add(workflows.UpdateRetry, e.Key, "tries only this step again")
			}
		}
	}
	for _, e := range open {
		if takes(workflows.UpdateDone) && e.ByHand {
			add(workflows.UpdateDone, e.Key, "records that this was done by hand, with a reference to the evidence")
		}
		if takes(workflows.UpdateResend) && e.Uncertain {
			add(workflows.UpdateResend, e.Key, "executes this step again although it may have happened; asks for confirmation first")
		}
		add(workflows.UpdateSkip, e.Key, "skips this step, and continues")
	}
	if len(open) > 1 {
		add(workflows.UpdateSkip, "", "skips all steps that are not done, and continues")
	}
	if takes(workflows.UpdateCompensate) {
		add(workflows.UpdateCompensate, "", "takes back the steps that are done")
	}
	return choices
}

// Question returns the question of the rule that parked the receipt for a review, and the consequence of approving or
// rejecting it. ok is false if the receipt has no review, or if the verb does not answer it.
func Question(r *timeline.Receipt, verb string) (asks, does string, ok bool) {
	review, ok := reviewOf(r)
	switch verb {
	case workflows.UpdateApprove:
		does = review.Approve
	case workflows.UpdateReject:
		does = review.Reject
	}
	return review.Asks, does, ok && does != ""
}

func reviewOf(r *timeline.Receipt) (workflows.Review, bool) {
	switch {
	case askedBeforeRun(r):
		return workflows.ReviewOf(r.ReasonCode, workflows.BeforeRun), true
	case r.Waits == nil || !slices.Contains(r.Waits.Decisions, workflows.UpdateApprove):
		return workflows.Review{}, false
	case slices.Contains(r.Waits.Decisions, workflows.UpdateRetry):
		return workflows.ReviewOf(r.ReasonCode, workflows.AtLoad), true
	}
	return workflows.ReviewOf(r.ReasonCode, workflows.AtEnd), true
}

// Doubtful returns the key of the uncertain effect that a resend would repeat. name is the key or the kind of the
// effect; if it is empty, the receipt must have exactly one uncertain effect. ok is false if no effect or several
// effects match.
func Doubtful(r *timeline.Receipt, name string) (key string, ok bool) {
	if r.Waits == nil {
		return "", false
	}
	for _, e := range r.Waits.Effects {
		if e.Uncertain && (name == "" || name == e.Key || name == e.Kind) {
			if key != "" {
				return "", false
			}
			key = e.Key
		}
	}
	return key, key != ""
}
