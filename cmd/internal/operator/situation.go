package operator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// situation is how a receipt stands for an operator.
type situation int

const (
	waiting     situation = iota // for its run to be started
	working                      // it has a run at work
	parked                       // its run waits for a decision
	beforeRun                    // it waits for a person, and has no run of its own
	ended                        // its run was ended from outside
	stuck                        // no worker can go on with its run
	closed                       // its run has ended
	ignored                      // it was ignored, and never ran
	notEntitled                  // it was ignored, because its source may not speak for it
	noConsumer                   // it was ignored, and nothing would come of running it
)

func situationOf(o *Operator, r *timeline.Receipt) situation {
	switch receipt.Status(r.Status) {
	case receipt.Received:
		return waiting
	case receipt.Processing, receipt.Retrying:
		return working
	case receipt.Processed, receipt.Compensated:
		return closed
	case receipt.Ignored:
		switch {
		case r.ReasonCode == receipt.ModeNotWanted || r.ReasonCode == receipt.AccountNotWanted:
			return notEntitled
		case r.WorkflowID != "":
			return closed
		case o.goesNowhere(r) != "":
			return noConsumer
		}
		return ignored
	}
	switch {
	case askedBeforeRun(r):
		return beforeRun
	case r.ReasonCode == receipt.RunEnded:
		return ended
	case r.ReasonCode == receipt.RunStuck:
		return stuck
	}
	return parked
}

// words say how a receipt stands when a verb refuses it. wanted names the state that the verb is for.
func (s situation) words(r *timeline.Receipt, wanted string) string {
	says := map[situation]string{
		waiting: "its run has not started yet", working: "its run is at work", parked: "its run waits for a decision",
		beforeRun: "it has not run: approve or reject it", ended: "its run was ended in Temporal",
		stuck:  "no worker can go on with its run",
		closed: "its run has ended", ignored: "it has never run",
	}[s]
	return fmt.Sprintf("is %s: %s; %s", statusOf(r), says, wanted)
}

// statusOf is a receipt's status, with the code of its reason.
func statusOf(r *timeline.Receipt) string {
	if r.ReasonCode == "" {
		return r.Status
	}
	return r.Status + " (" + r.ReasonCode + ")"
}

// askedBeforeRun reports whether a receipt waits for a person, and no run of its own has begun.
func askedBeforeRun(r *timeline.Receipt) bool {
	if !waitsForPerson(*r) {
		return false
	}
	return r.WorkflowID == "" || r.ReasonCode == receipt.AnotherRun || r.ReasonCode == receipt.StartRefused
}

// waitsForPerson reports whether a receipt is parked.
func waitsForPerson(r timeline.Receipt) bool {
	return r.Status == string(receipt.NeedsReview) || r.Status == string(receipt.Dead)
}

// goesNowhere says why nothing would come of running an event, "" where something does.
func (o *Operator) goesNowhere(r *timeline.Receipt) string {
	in := inputOf(r)
	if !in.OnlyRelays() || len(o.Relays[r.Source]) > 0 {
		return ""
	}
	why := fmt.Sprintf("no flow is written for %s %s, and source %s relays to nobody", r.Provider, r.Type, r.Source)
	for _, group := range workflows.IgnoredTypes() {
		if r.Provider == "stripe" && slices.Contains(group.Types, r.Type) {
			why = fmt.Sprintf("no flow is for %s (%s), and source %s relays to nobody", r.Type,
				strings.ReplaceAll(group.Why, "`", ""), r.Source)
		}
	}
	return why
}

// timeText is a time as the audit trail holds it.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
