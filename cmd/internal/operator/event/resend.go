package event

import (
	"slices"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Resend implements `pawl events resend`.
var Resend = decide.Verb{
	Name: workflows.UpdateResend, Judges: true, Command: "events resend", Target: "ID",
	Rule: ruleOf(checkParked, forecastParked), Previews: true,
	Flags: []decide.Flag{flagEffect("the only uncertain effect"), {
		Name: "confirm", Usage: "the `key` of the effect, as confirmation (default: ask)",
		Value: func(a *decide.Args) *string { return &a.Confirm },
	}},
	Short: "Execute an uncertain effect again",
	Long: `Execute an uncertain effect again although it may have happened. The new generation of the effect has its own
idempotency key. If the first execution did happen, the effect happens twice: the customer gets two e-mails. Therefore
the command always asks for the key of the effect, also with --yes; a script passes --confirm KEY.`,
}

// ResendOf returns the decision to send an e-mail again. It returns nil unless the outcome of the e-mail is unclear and
// the run of its event accepts the decision.
func ResendOf(e timeline.Email) *decide.Decision {
	if e.Waits == nil || !slices.Contains(e.Waits.Decisions, workflows.UpdateResend) {
		return nil
	}
	for _, open := range e.Waits.Effects {
		if open.Key == e.Key && open.Uncertain {
			return &decide.Decision{Verb: Resend.Name, Target: e.Receipt, Args: decide.Args{Effect: e.Key}}
		}
	}
	return nil
}
