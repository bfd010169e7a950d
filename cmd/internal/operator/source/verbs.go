// Package source implements what operators decide about sources, and the checks of their schedules: missed events and
// the configuration of the webhook endpoint.
package source

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about sources.
var Verbs = decide.Verbs{Pause, Resume, Backfill}
