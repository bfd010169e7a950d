// Package money implements what operators decide about payments, entries and orders.
package money

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about payments, entries and orders.
var Verbs = decide.Verbs{Assign, Correct, Regrant}
