package job

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about jobs.
var Verbs = decide.Verbs{Start, Pause, Resume, Cancel}
