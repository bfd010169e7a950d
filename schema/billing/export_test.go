package billing

import (
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Grants returns the grants of objects, the highest plan first. A held or withheld object grants nothing. Grants that
// have ended by time are included, and [fold.TargetOf] omits them.
func Grants(list []fold.Object, p fact.Policy) (grants []fold.Grant) {
	for _, o := range list {
		grants = append(grants, o.Grants()...)
	}
	fold.SortGrants(grants, p)
	return grants
}
