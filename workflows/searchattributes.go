package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Every run has these search attributes from its start. All of them are Keywords. The attributes do not change later,
// because an upsert costs an event and a write to the visibility store.
var (
	PawlProvider = temporal.NewSearchAttributeKeyKeyword("PawlProvider")
	PawlType     = temporal.NewSearchAttributeKeyKeyword("PawlType")
	PawlReceipt  = temporal.NewSearchAttributeKeyKeyword("PawlReceipt")
)

// PawlStatus is set for parked runs: the receipt status and the reason code, e.g. "dead:effect_failed". One attribute
// holds both, so that a filter finds one cause by its value and a whole status by its prefix. Runs that never park do
// not set it, and so need no additional event.
var PawlStatus = temporal.NewSearchAttributeKeyKeyword("PawlStatus")

// SearchAttributeKeys lists the search attributes of runs. All of them are Keywords and must be registered in the
// namespace.
func SearchAttributeKeys() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{PawlProvider, PawlType, PawlReceipt, PawlStatus}
}

// SearchAttributes returns the search attributes of the event's runs: routing fields and the receipt ID, no personal
// data.
//
// PawlStatus is unset explicitly. A namespace without this attribute then rejects the start, which is retried until
// the attribute is registered. Otherwise the run would fail when it parks, and no worker could continue it.
func (in EventInput) SearchAttributes() temporal.SearchAttributes {
	return temporal.NewSearchAttributes(
		PawlProvider.ValueSet(in.Provider),
		PawlType.ValueSet(in.Type),
		PawlReceipt.ValueSet(in.ReceiptID),
		PawlStatus.ValueUnset(),
	)
}

// mark sets PawlStatus, or unsets it for "". It adds an event only if the value changes.
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
