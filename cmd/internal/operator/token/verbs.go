package token

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about API tokens.
var Verbs = decide.Verbs{New, Revoke}
