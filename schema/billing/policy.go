package billing

import (
	"cmp"
	"slices"
	"time"
)

// Policy is what configuration decides about facts and their consequences.
type Policy struct {
	// Order lists the plans, lowest first.
	Order []string
	// Features lists what a plan enables; a plan that is not listed enables nothing.
	Features map[string][]string
	// Grace is how long a subscription grants after it became past due.
	Grace time.Duration
	// Renewal is how long after a period's end the invoice of the next one may be paid.
	Renewal time.Duration
	// EndAtPeriodEnd lets an ended subscription grant until the end of its paid period.
	EndAtPeriodEnd bool
	// EndOnFullRefund ends what a subscription grants while its newest paid invoice is refunded in full.
	EndOnFullRefund bool
	// HoldOnDispute holds back what was paid for with a charge that is disputed, until that is decided; EndOnLostDispute
	// while the dispute is lost.
	HoldOnDispute, EndOnLostDispute bool
}

// Compare orders two plans, the lower one first. Plans that are not in Order stand below all others, in the order of
// their names, and no plan at all ("") stands below them.
func (p Policy) Compare(a, b string) int {
	return cmp.Or(cmp.Compare(slices.Index(p.Order, a), slices.Index(p.Order, b)), cmp.Compare(a, b))
}
