package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// The search attributes that every run has from its start. They are Keywords, set once: an upsert
// costs an event and a visibility write each.
var (
	PawlProvider = temporal.NewSearchAttributeKeyKeyword("PawlProvider")
	PawlType     = temporal.NewSearchAttributeKeyKeyword("PawlType")
	PawlReceipt  = temporal.NewSearchAttributeKeyKeyword("PawlReceipt")
)

// PawlStatus is what a parked run waits for: its receipt's status and the code of the reason, as
// "dead:effect_failed". One attribute has both, so that a filter finds one cause by its value and all of a status by
// how the value begins. No other run has it: a run that never parks costs no event more.
var PawlStatus = temporal.NewSearchAttributeKeyKeyword("PawlStatus")

// SearchAttributeKeys lists the search attributes of runs, all of them Keywords. The namespace has to know them.
func SearchAttributeKeys() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{PawlProvider, PawlType, PawlReceipt, PawlStatus}
}

// SearchAttributes returns the search attributes of the event's runs: routing words and our own
// receipt ID, nothing about a person.
//
// PawlStatus is named without a value. So a namespace that lacks it refuses the start, which waits until it is
// registered. Otherwise the run would be the one to find out, when it parks, and no worker could go on with it.
func (in EventInput) SearchAttributes() temporal.SearchAttributes {
	return temporal.NewSearchAttributes(
		PawlProvider.ValueSet(in.Provider),
		PawlType.ValueSet(in.Type),
		PawlReceipt.ValueSet(in.ReceiptID),
		PawlStatus.ValueUnset(),
	)
}

// mark shows in Temporal's lists what the run waits for, "" for nothing. It costs an event where that changes.
func (r *run) mark(status string) error {
	if status == r.marked {
		return nil
	}
	r.marked = status
	if status == "" {
		return workflow.UpsertTypedSearchAttributes(r.ctx, PawlStatus.ValueUnset())
	}
	return workflow.UpsertTypedSearchAttributes(r.ctx, PawlStatus.ValueSet(status))
}
