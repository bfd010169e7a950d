package job

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/job"
)

// Resume implements `pawl jobs resume`.
var Resume = decide.Verb{
	Name: "resume-job", Command: "jobs resume", Target: "ID", Short: "Resume a bulk job",
	Rule: ruleOf(job.Running, "", job.Paused, job.Running),
	Long: `Resume a paused bulk job. The command also starts a run if the job has no run: if Temporal did not accept it, or
if it was ended in Temporal. Items with a result are not repeated.`,
}
