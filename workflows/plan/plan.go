// Package plan decides which effects a change of state has: the plan of each flow. Each exported function that returns
// a [Plan] belongs to the flow of the same name, except [MoneyMoved], which belongs to three flows.
//
// Planning is a pure function of the change and the loaded policy. A plan contains the key, the input and the undo of
// each effect. Package workflows executes plans and previews them.
package plan

import (
	"cmp"
	"slices"

	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Plan is the result of planning a change: effects that run in parallel, and a review that opens after them.
type Plan struct {
	Steps []*Step
	// Letters are e-mails that are sent after the steps are done. If a step is refused, none of them is sent.
	Letters []*Step
	Review  *Review
	// notified is the invoice for which this plan e-mails the customer about the newest failed attempt, or "".
	notified string
	// notByEvent is set for the plans of scheduled actions, which have e-mails of their own, and of reconciled objects,
	// which send none.
	notByEvent bool
}

// With adds the effects that every flow can have. Any event can report the payment of an upgrade or complete an earlier
// event, so every flow of an event can send the e-mails about a subscription.
func (p Plan) With(c fold.Change) Plan {
	p.Review = cmp.Or(p.Review, reviewOf(c))
	if !p.notByEvent {
		p.Steps = slices.Concat(p.Steps, lateEnd(c), restOfLists(c))
		p.Letters = append(p.Letters, changedSteps(c)...)
	}
	p.Steps = slices.Concat(p.Steps, bookings(c), partSteps(c), laterCaptures(c), dueSteps(c, p.notified))
	if !p.notByEvent {
		p.Steps = append(p.Steps, accessEndedSteps(c)...)
	}
	return p
}
