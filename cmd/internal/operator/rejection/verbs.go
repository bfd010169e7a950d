package rejection

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about rejected requests.
var Verbs = decide.Verbs{Admit, Reveal}
