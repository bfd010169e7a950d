package operator

import (
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Choice is a command that a person can run about an event.
type Choice struct {
	// Command is the command line as a list of words.
	Command []string `json:"command"`
	// Does describes the effect of the command.
	Does string `json:"does"`
	// Decision is the decision that the command makes, without person and reason. It is nil for a command that only
	// reads.
	Decision *Decision `json:"-"`
}

// choose returns the choice of a verb for a target. If effect is not empty, the choice is about that effect alone.
func choose(verb, target, effect, does string) Choice {
	v := VerbNamed(verb)
	d := &Decision{Verb: verb, Target: target, Args: Args{Effect: effect}}
	command := append(append([]string{"pawl"}, strings.Fields(v.Command)...), target)
	for _, f := range v.Flags {
		if value := *f.Value(&d.Args); value != "" {
			command = append(command, "--"+f.Name, value)
		} else if f.Required { // a placeholder for a value that the operator must add
			command = append(command, "--"+f.Name, strings.ToUpper(f.Name))
		}
	}
	return Choice{append(command, "--why", "REASON"), does, d}
}

// Line returns the command line, quoted for a shell.
func (c Choice) Line() string {
	words := make([]string, len(c.Command))
	for i, word := range c.Command {
		words[i] = ShellWord(word)
	}
	return strings.Join(words, " ")
}

// ShellWord returns the word, quoted if a shell would interpret one of its characters.
func ShellWord(word string) string {
	if word != "" && strings.Trim(word,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@+,") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Choices lists the commands that work in the current state of the event. id names the event in the commands.
func (o *Operator) Choices(id string, r *timeline.Receipt) []Choice {
	switch s := situationOf(o, r); s {
	case waiting, working:
		return waitsFor(id, r)
	case parked:
		return decisions(id, r)
	case beforeRun:
		asks := workflows.ReviewOf(r.ReasonCode, workflows.BeforeRun)
		return []Choice{
			choose(VerbApprove, id, "", asks.Approve), choose(VerbReject, id, "", asks.Reject),
			choose(VerbRun, id, "", "the same as approve"),
		}
	case ignored:
		return []Choice{choose(VerbRun, id, "", "processes it")}
	case closed:
		choices := []Choice{replays(id, r)}
		if r.Status == string(receipt.Ignored) {
			choices = append(choices, choose(VerbRun, id, "", "the same"))
		}
		return choices
	case ended, stuck:
		return []Choice{replays(id, r)}
	}
	return nil
}

// waitsFor lists the commands about an event that waits for the start of its run or for a sink.
func waitsFor(id string, r *timeline.Receipt) (choices []Choice) {
	kind, name := Source, r.Source
	unstarted := r.Status == string(receipt.Received)
	if !unstarted {
		_, says, _ := strings.Cut(r.Reason, ": ")
		name, _, _ = strings.Cut(says, " ")
		kind = Sink
		if consumer, is := strings.CutPrefix(name, workflows.SinkConsumers+":"); is {
			kind, name = Consumer, consumer
		}
	}
	switch {
	case r.ReasonCode == receipt.Paused:
		choices = append(choices, choose("resume-"+kind, name, "", "lets what waits for it go on"))
	case r.ReasonCode == receipt.SinkOut && kind == Sink:
		base, _, _ := strings.Cut(name, ":")
		choices = append(choices, Choice{Command: []string{"pawl", "sinks", "check", base},
			Does: "says what is wrong with the sink; it goes on by itself when the sink answers"})
	case unstarted:
		choices = append(choices, Choice{Command: []string{"pawl", "doctor"}, Does: "it waits for its start, which a running ingress makes by itself: this says what is in its way"})
	}
	if !unstarted {
		choices = append(choices,
			choose(VerbCancel, id, "", "it goes on by itself; this stops what has not begun, and parks it for you"))
	}
	return choices
}

// replays returns the choice to replay the event.
func replays(id string, r *timeline.Receipt) Choice {
	does := "runs it again on today's code; what the ledger has as done is not done again"
	switch {
	case r.Status == string(receipt.Compensated):
		does = "runs it again on today's code; what was taken back stays so"
	case r.ReasonCode == receipt.RunStuck:
		does = "ends its run, which no worker can go on with, and runs it again on today's code; what the ledger has as done is not done again"
	}
	return choose(VerbReplay, id, "", does)
}

// workflowOf returns the workflow ID of a receipt. It computes the ID if no run is recorded.
func workflowOf(r *timeline.Receipt) string {
	if r.WorkflowID != "" {
		return r.WorkflowID
	}
	return inputOf(r).ID()
}

// decisions lists the decisions that the parked run of the event accepts. The run writes them to the receipt.
func decisions(id string, r *timeline.Receipt) (choices []Choice) {
	add := func(verb, effect, does string) { choices = append(choices, choose(verb, id, effect, does)) }
	if r.Waits == nil { // the row was edited by hand: a run always lists its decisions
		add(VerbRetry, "", "tries again what is not done")
		add(VerbSkip, "", "goes on without what is not done")
		return choices
	}
	takes := func(action string) bool { return slices.Contains(r.Waits.Decisions, action) }
	open := r.Waits.Effects
	if asks, ok := reviewOf(r); ok {
		add(VerbApprove, "", asks.Approve)
		if takes(VerbReject) {
			add(VerbReject, "", asks.Reject)
		}
		if takes(VerbRetry) {
			add(VerbRetry, "", "the same as approve")
			add(VerbSkip, "", "the same as reject")
			return choices
		}
		add(VerbSkip, "", "the same as approve")
		if takes(VerbCompensate) {
			add(VerbCompensate, "", "the same as reject")
		}
		return choices
	}
	if takes(VerbRetry) {
		does := "tries again what is not done"
		if slices.ContainsFunc(open, func(e receipt.OpenEffect) bool { return e.Uncertain }) {
			does += ", and is not known to have happened"
		}
		add(VerbRetry, "", does)
		for _, e := range open {
			if len(open) > 1 && !e.Uncertain {
				add(VerbRetry, e.Key, "tries this effect again, and leaves the others")
			}
		}
	}
	for _, e := range open {
		if takes(VerbDone) && e.ByHand {
			add(VerbDone, e.Key, "says that this effect has happened, and where that can be seen")
		}
		if takes(VerbResend) && e.Uncertain {
			add(VerbResend, e.Key, "does this effect once more, though it may have happened: it asks first")
		}
		add(VerbSkip, e.Key, "goes on without this effect")
	}
	if len(open) > 1 {
		add(VerbSkip, "", "goes on without all that is not done")
	}
	if takes(VerbCompensate) {
		add(VerbCompensate, "", "takes back what was done")
	}
	return choices
}

// Does returns the question of the rule that parked the receipt for a review, and the consequence of approve or reject.
// ok is false if the receipt has no review, or if the verb does not answer it.
func Does(r *timeline.Receipt, verb string) (asks, does string, ok bool) {
	review, ok := reviewOf(r)
	switch verb {
	case VerbApprove:
		does = review.Approve
	case VerbReject:
		does = review.Reject
	}
	return review.Asks, does, ok && does != ""
}

func reviewOf(r *timeline.Receipt) (workflows.Review, bool) {
	switch {
	case askedBeforeRun(r):
		return workflows.ReviewOf(r.ReasonCode, workflows.BeforeRun), true
	case r.Waits == nil || !slices.Contains(r.Waits.Decisions, VerbApprove):
		return workflows.Review{}, false
	case slices.Contains(r.Waits.Decisions, VerbRetry):
		return workflows.ReviewOf(r.ReasonCode, workflows.AtLoad), true
	}
	return workflows.ReviewOf(r.ReasonCode, workflows.AtEnd), true
}

// Doubtful returns the key of the uncertain effect that a resend is about. name is the key or the kind of the effect;
// if it is empty, the receipt must have exactly one uncertain effect. ok is false if no effect or several effects
// match.
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
