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
	// GrantOnPayment grants a higher plan, or more seats, once an invoice for them is paid, and not with the change.
	GrantOnPayment bool
	// Dunning says how long after the first attempt that failed the customer is reminded of an invoice, ascending.
	Dunning []time.Duration
	// Settle is how long a paid invoice waits for its subscription's event before a person is asked.
	Settle time.Duration
	// Keep is how long the workspace of an account without access is kept before a person is asked to release it.
	Keep time.Duration
	// EffectsFrom is when effects began, as [Apply] reads it from the database: nothing is due for what occurred before.
	// Zero for no such time.
	EffectsFrom time.Time
}

// Compare orders two plans, the lower one first. Plans that are not in Order stand below all others, in the order of
// their names, and no plan at all ("") stands below them.
func (p Policy) Compare(a, b string) int {
	return cmp.Or(cmp.Compare(slices.Index(p.Order, a), slices.Index(p.Order, b)), cmp.Compare(a, b))
}
