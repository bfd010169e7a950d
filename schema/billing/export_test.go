package billing

import (
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Grants returns what objects grant, the highest plan first. An object that is held or taken back grants nothing.
// Grants that have ended by the clock are included; [fold.TargetOf] leaves them out.
func Grants(list []fold.Object, p fact.Policy) (grants []fold.Grant) {
	for _, o := range list {
		grants = append(grants, o.Grants()...)
	}
	fold.SortGrants(grants, p)
	return grants
}
