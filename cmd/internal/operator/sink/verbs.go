// Package sink pauses and resumes sinks. The package source uses the same rule for sources.
package sink

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about sinks.
var Verbs = decide.Verbs{Pause, Resume}
