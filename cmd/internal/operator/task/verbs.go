package task

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about tasks.
var Verbs = decide.Verbs{Take, Note, Close}
