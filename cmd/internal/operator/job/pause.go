package job

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/job"
)

// Pause implements `pawl jobs pause`.
var Pause = decide.Verb{
	Name: "pause-job", Command: "jobs pause", Target: "ID", Short: "Pause a bulk job",
	Rule: ruleOf(job.Paused, "paused by ", job.Running),
	Long: `Pause a bulk job after the items in progress, until it is resumed or cancelled. The command does not need Temporal.`,
}
