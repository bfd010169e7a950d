package source

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/sink"
)

// Resume implements `pawl sources resume`.
var Resume = decide.Verb{
	Name: "resume-source", Command: "sources resume", Target: "NAME", Short: "Resume a source",
	Rule: sink.PauseRule(decide.Source, false), Previews: true,
	Long: "Resume a source.\n" + sink.ResumeLong + namesSource,
}
