package event

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// situation is the part of a receipt's state that determines which verbs are possible.
type situation int

const (
	waiting       situation = iota // the run has not started
	working                        // the run is running
	parked                         // the run waits for a decision
	beforeRun                      // it needs a decision and has no run
	ended                          // the run was terminated in Temporal
	stuck                          // the workflow task of the run keeps failing
	closed                         // the run has ended
	ignored                        // ignored without a run
	notEntitled                    // ignored, because the source may not send events of this mode or account
	noDestination                  // ignored; a run would have no effect
)

func situationOf(o *decide.Operator, r *timeline.Receipt) situation {
	switch receipt.Status(r.Status) {
	case receipt.Received:
		return waiting
	case receipt.Processing, receipt.Retrying:
		return working
	case receipt.Processed, receipt.Compensated:
		return closed
	case receipt.Ignored:
		switch {
		case r.ReasonCode == receipt.ModeIgnored || r.ReasonCode == receipt.AccountIgnored:
			return notEntitled
		case r.WorkflowID != "":
			return closed
		case goesNowhere(o, r) != "":
			return noDestination
		}
		return ignored
	}
	switch {
	case askedBeforeRun(r):
		return beforeRun
	case r.ReasonCode == receipt.RunTerminated:
		return ended
	case r.ReasonCode == receipt.WorkflowTaskFailing:
		return stuck
	}
	return parked
}

// words explains why a verb is refused in the situation. wanted describes the state that the verb requires.
func (s situation) words(r *timeline.Receipt, wanted string) string {
	says := map[situation]string{
		waiting: "its run has not started yet", working: "its run is in progress",
		parked:    "its run waits for a decision",
		beforeRun: "it has not run: approve or reject it", ended: "its run was ended in Temporal",
		stuck:  "its workflow task fails",
		closed: "its run has ended", ignored: "it has never run",
	}[s]
	return fmt.Sprintf("is %s: %s; %s", statusOf(r), says, wanted)
}

// statusOf returns the status of a receipt with the reason code in parentheses.
func statusOf(r *timeline.Receipt) string {
	if r.ReasonCode == "" {
		return r.Status
	}
	return r.Status + " (" + r.ReasonCode + ")"
}

// askedBeforeRun reports whether a receipt needs a decision and no run of it has started yet.
func askedBeforeRun(r *timeline.Receipt) bool {
	if !waitsForPerson(*r) {
		return false
	}
	return r.WorkflowID == "" || r.ReasonCode == receipt.ForeignRun || r.ReasonCode == receipt.StartRefused
}

// waitsForPerson reports whether a receipt waits for the decision of a person.
func waitsForPerson(r timeline.Receipt) bool {
	return r.Status == string(receipt.NeedsReview) || r.Status == string(receipt.Dead)
}

// goesNowhere returns the reason why a run of the event would have no effect. It returns "" if a run would have an
// effect.
func goesNowhere(o *decide.Operator, r *timeline.Receipt) string {
	in := decide.InputOf(r)
	if !in.OnlyRelays() || len(relays(o, r)) > 0 || configured(o, r) != "" {
		return ""
	}
	why := fmt.Sprintf("no flow handles %s %s, and no destination of source %s receives it", r.Provider, r.Type,
		r.Source)
	for _, group := range workflows.IgnoredTypes() {
		if r.Provider == "stripe" && slices.Contains(group.Types, r.Type) {
			why = fmt.Sprintf("no flow handles %s (%s), and no destination of source %s receives it", r.Type,
				strings.ReplaceAll(group.Reason, "`", ""), r.Source)
		}
	}
	return why
}

// configured returns the name of the flow in the configuration that handles the event, or "".
func configured(o *decide.Operator, r *timeline.Receipt) string {
	if o.FlowOf == nil {
		return ""
	}
	return o.FlowOf(r.Source, r.Type)
}

// relays returns the destinations of the event's source that select its type.
func relays(o *decide.Operator, r *timeline.Receipt) []string {
	if o.Relays == nil {
		return nil
	}
	return o.Relays(r.Source, r.Type)
}

// timeText formats a time as in the audit trail.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
