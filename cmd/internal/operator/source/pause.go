package source

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/sink"
)

const namesSource = "\nNAME is the name of the source in the configuration."

// Pause implements `pawl sources pause`.
var Pause = decide.Verb{
	Name: "pause-source", Command: "sources pause", Target: "NAME", Short: "Pause a source",
	Rule: sink.PauseRule(decide.Source, true), Previews: true, ReasonHelp: sink.PauseReason,
	Long: "Pause a source.\n" + sink.PauseLong + namesSource,
}
