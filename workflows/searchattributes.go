package workflows

import "go.temporal.io/sdk/temporal"

// The search attributes that every run has from its start. They are Keywords, set once: an upsert
// costs an event and a visibility write each.
var (
	PawlProvider = temporal.NewSearchAttributeKeyKeyword("PawlProvider")
	PawlType     = temporal.NewSearchAttributeKeyKeyword("PawlType")
	PawlReceipt  = temporal.NewSearchAttributeKeyKeyword("PawlReceipt")
)

// SearchAttributes returns the search attributes of the event's runs: routing words and our own
// receipt ID, nothing about a person.
func (in EventInput) SearchAttributes() temporal.SearchAttributes {
	return temporal.NewSearchAttributes(
		PawlProvider.ValueSet(in.Provider),
		PawlType.ValueSet(in.Type),
		PawlReceipt.ValueSet(in.ReceiptID),
	)
}
