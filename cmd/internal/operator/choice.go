package operator

import (
	"slices"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Choice is one thing that can be done about a parked event.
type Choice struct {
	// Command is the program and its arguments.
	Command []string
	// Does says what it comes to.
	Does string
}

// reasonWanted stands where the operator's reason belongs.
const reasonWanted = "REASON"

// Choices lists what can be done about a parked event that id names. Any other event leaves nothing to decide.
func Choices(id string, e *timeline.Event) []Choice {
	r := e.Receipt
	if r.Status != string(receipt.NeedsReview) && r.Status != string(receipt.Dead) {
		return nil
	}
	anew := Choice{[]string{"pawl", "events", "run", id, "--why", reasonWanted}, "runs it; what the ledger has as done is not done again"}
	reset := Choice{
		[]string{"temporal", "workflow", "reset", "--workflow-id", r.WorkflowID, "--type", "FirstWorkflowTask", "--reason", reasonWanted},
		"begins its run again; what the ledger has as done is not done again",
	}
	switch {
	case r.ReasonCode == receipt.RunStuck:
		return []Choice{reset}
	case r.ReasonCode == receipt.RunEnded:
		anew.Does = "the same by a new run, where Temporal has forgotten that one"
		return []Choice{reset, anew}
	case r.WorkflowID == "" || r.ReasonCode == receipt.AnotherRun:
		return []Choice{anew}
	}
	return decisions(id, e)
}

// decisions are those that the run of a parked event takes.
func decisions(id string, e *timeline.Event) []Choice {
	decide := func(action, does string, flags ...string) Choice {
		return Choice{slices.Concat([]string{"pawl", "events", action, id}, flags, []string{"--why", reasonWanted}), does}
	}
	var open []string
	takenBack := false
	for _, f := range e.Effects {
		takenBack = takenBack || f.State == "compensated"
		if f.State == "failed" || f.State == "uncertain" {
			open = append(open, f.Key)
		}
	}
	choices := []Choice{decide(workflows.UpdateRetry, "tries again what is not done")}
	for _, key := range open {
		choices = append(choices, decide(workflows.UpdateSkip, "goes on without this effect", "--effect", key))
	}
	if len(open) != 1 {
		choices = append(choices, decide(workflows.UpdateSkip, "goes on without all that is not done"))
	}
	// What was delivered cannot be taken back, and nothing is taken back twice.
	in := workflows.EventInput{Provider: e.Receipt.Provider, Type: e.Receipt.Type, RelayOf: e.Receipt.RelayOf}
	if !in.OnlyRelays() && !takenBack {
		choices = append(choices, decide(workflows.UpdateCompensate, "takes back what was done"))
	}
	return choices
}
