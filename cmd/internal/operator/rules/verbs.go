package rules

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about billing rules and recomputation.
var Verbs = decide.Verbs{Apply, Rebuild, Recompute, ApplyReading}
