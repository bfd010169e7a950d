package account

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about accounts and customers.
var Verbs = decide.Verbs{Hold, Release, Announce, Reconcile, Forget, Export}
