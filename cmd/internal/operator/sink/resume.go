package sink

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Resume implements `pawl sinks resume`.
var Resume = decide.Verb{
	Name: "resume-sink", Command: "sinks resume", Target: "NAME", Short: "Resume a sink", Rule: PauseRule(decide.Sink,
		false),
	Previews: true, Long: "Resume a sink.\n" + ResumeLong + namesSink,
}
