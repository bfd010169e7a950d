package event

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/workflows"
)

// Skip implements `pawl events skip`.
var Skip = decide.Verb{
	Name: workflows.UpdateSkip, Judges: true, Command: "events skip", Target: "ID", Rule: ruleOf(checkParked,
		forecastParked),
	Previews: true, Many: parkedStatuses, Flags: []decide.Flag{flagEffect("all effects that are not done")},
	Short: "Continue a parked run without its open effects",
}
