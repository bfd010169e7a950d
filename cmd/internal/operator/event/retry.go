package event

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/workflows"
)

// Retry implements `pawl events retry`.
var Retry = decide.Verb{
	Name: workflows.UpdateRetry, Command: "events retry", Target: "ID", Rule: ruleOf(checkParked, forecastParked),
	Previews: true, Many: parkedStatuses, JudgesReviews: true,
	Flags: []decide.Flag{flagEffect("all effects that are not done")},
	Short: "Retry the open effects of a parked run",
	Long: `Retry the open effects of a parked run, or with --effect only one of them. Uncertain effects are not retried: see
pawl events resend.`,
}
