package job

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/job"
)

const verbCancelJob = "cancel-job"

// Cancel implements `pawl jobs cancel`.
var Cancel = decide.Verb{
	Name: verbCancelJob, Command: "jobs cancel", Target: "ID", Short: "Cancel a bulk job",
	Rule: ruleOf(job.Cancelled, "cancelled by ", job.Running, job.Paused),
	Long: `Cancel a bulk job after the items in progress. Decisions that were made stay. The other events do not change.`,
}
