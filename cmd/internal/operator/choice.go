package operator

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Choice is one thing that can be done about an event.
type Choice struct {
	// Command is the program and its arguments.
	Command []string `json:"command"`
	// Does says what follows.
	Does string `json:"does"`
}

// Line is the command as a shell takes it.
func (c Choice) Line() string {
	words := make([]string, len(c.Command))
	for i, word := range c.Command {
		words[i] = ShellWord(word)
	}
	return strings.Join(words, " ")
}

// ShellWord quotes what a shell would read otherwise.
func ShellWord(word string) string {
	if word != "" && strings.Trim(word,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@+,") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// The words that stand where the operator's own belong.
const (
	reasonWanted    = "REASON"
	referenceWanted = "REFERENCE"
)

// Choices lists what can be done about an event, and nothing else: each of them works as the event stands. id names the
// event in their commands.
func (o *Operator) Choices(ctx context.Context, id string, r *timeline.Receipt) []Choice {
	switch s := situationOf(o, r); s {
	case waiting, working:
		return o.waitsFor(ctx, id, r)
	case parked:
		return decisions(id, r)
	case beforeRun:
		asks := workflows.ReviewOf(r.ReasonCode, workflows.BeforeRun)
		return []Choice{
			verb(VerbApprove, id, asks.Approve), verb(VerbReject, id, asks.Reject),
			verb(VerbRun, id, "the same as approve"),
		}
	case ignored:
		return []Choice{verb(VerbRun, id, "processes it")}
	case closed:
		choices := []Choice{replays(id, r)}
		if r.Status == string(receipt.Ignored) {
			choices = append(choices, verb(VerbRun, id, "the same"))
		}
		return choices
	case ended, stuck:
		return []Choice{replays(id, r)}
	}
	return nil
}

// waitsFor lists what helps an event that waits by itself, for its start or for a sink.
func (o *Operator) waitsFor(ctx context.Context, id string, r *timeline.Receipt) (choices []Choice) {
	kind, name := Source, r.Source
	if r.Status != string(receipt.Received) {
		_, says, _ := strings.Cut(r.Reason, ": ")
		name, _, _ = strings.Cut(says, " ")
		kind = Sink
		if consumer, is := strings.CutPrefix(name, workflows.SinkConsumers+":"); is {
			kind, name = Consumer, consumer
		}
	}
	switch {
	case r.ReasonCode == receipt.Paused:
		choices = append(choices,
			Choice{[]string{"pawl", "resume", kind, name, "--why", reasonWanted}, "lets what waits for it go on"})
	case r.ReasonCode == receipt.SinkOut && kind == Sink:
		base, _, _ := strings.Cut(name, ":")
		choices = append(choices,
			Choice{[]string{"pawl", "sinks", "check", base},
				"says what is wrong with the sink; it goes on by itself when the sink answers"})
	case r.Status == string(receipt.Received):
		choices = append(choices, Choice{[]string{"pawl", "doctor"}, "it waits for its start, which a running ingress makes by itself: this says what is in its way"})
	}
	if r.Status != string(receipt.Received) {
		choices = append(choices,
			verb(VerbCancel, id, "it goes on by itself; this stops what has not begun, and parks it for you"))
	}
	return choices
}

func verb(verb, id, does string, flags ...string) Choice {
	return Choice{slices.Concat([]string{"pawl", "events", verb, id}, flags, []string{"--why", reasonWanted}), does}
}

// replays is the replay.
func replays(id string, r *timeline.Receipt) Choice {
	does := "runs it again on today's code; what the ledger has as done is not done again"
	switch {
	case r.Status == string(receipt.Compensated):
		does = "runs it again on today's code; what was taken back stays so"
	case r.ReasonCode == receipt.RunStuck:
		does = "ends its run, which no worker can go on with, and runs it again on today's code; what the ledger has as done is not done again"
	}
	return verb(VerbReplay, id, does)
}

// workflowOf is the workflow ID of a receipt, also before its run was recorded.
func workflowOf(r *timeline.Receipt) string {
	if r.WorkflowID != "" {
		return r.WorkflowID
	}
	return inputOf(r).ID()
}

// decisions are those that the run of a parked event takes, as it has said itself.
func decisions(id string, r *timeline.Receipt) []Choice {
	if r.Waits == nil { // written by hand: a run lists its decisions
		return []Choice{verb(VerbRetry, id, "tries again what is not done"),
			verb(VerbSkip, id, "goes on without what is not done")}
	}
	takes := func(action string) bool { return slices.Contains(r.Waits.Decisions, action) }
	var choices []Choice
	open := r.Waits.Effects
	if asks, ok := reviewOf(r); ok {
		choices = append(choices, verb(VerbApprove, id, asks.Approve))
		if takes(VerbReject) {
			choices = append(choices, verb(VerbReject, id, asks.Reject))
		}
		if takes(VerbRetry) {
			choices = append(choices, verb(VerbRetry, id, "the same as approve"))
			return append(choices, verb(VerbSkip, id, "the same as reject"))
		}
		choices = append(choices, verb(VerbSkip, id, "the same as approve"))
		if takes(VerbCompensate) {
			choices = append(choices, verb(VerbCompensate, id, "the same as reject"))
		}
		return choices
	}
	if takes(VerbRetry) {
		choices = append(choices, verb(VerbRetry, id, "tries again what is not done"+but(r)))
		for _, e := range open {
			if len(open) > 1 && !e.Uncertain {
				choices = append(choices,
					verb(VerbRetry, id, "tries this effect again, and leaves the others", "--effect", e.Key))
			}
		}
	}
	for _, e := range open {
		if takes(VerbDone) && e.ByHand {
			choices = append(choices,
				verb(VerbDone, id, "says that this effect has happened, and where that can be seen", "--effect", e.Key,
					"--reference", referenceWanted))
		}
		if takes(VerbResend) && e.Uncertain {
			choices = append(choices,
				verb(VerbResend, id, "does this effect once more, though it may have happened: it asks first",
					"--effect", e.Key))
		}
		choices = append(choices, verb(VerbSkip, id, "goes on without this effect", "--effect", e.Key))
	}
	if len(open) > 1 {
		choices = append(choices, verb(VerbSkip, id, "goes on without all that is not done"))
	}
	if takes(VerbCompensate) {
		choices = append(choices, verb(VerbCompensate, id, "takes back what was done"))
	}
	return choices
}

// but says that a retry leaves uncertain effects alone.
func but(r *timeline.Receipt) string {
	for _, e := range r.Waits.Effects {
		if e.Uncertain {
			return ", and is not known to have happened"
		}
	}
	return ""
}

// Does says what a rule asks about a receipt that needs a review, and what approving or rejecting does; false where
// nothing is asked.
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

// Doubtful returns the key of the effect that a resend is about: the one in doubt that name is the key or the kind
// of, or the only one for "". It returns false where that is not one.
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
