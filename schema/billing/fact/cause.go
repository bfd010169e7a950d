package fact

import "time"

// Cause names a fact.
type Cause struct {
	Provider        string
	ProviderAccount string `json:",omitempty"`
	EventID         string
	ReceiptID       string
	At              time.Time
}

// CauseOf returns the name of the fact.
func CauseOf(f Fact) Cause {
	return Cause{f.Provider, f.ProviderAccount, f.EventID, f.ReceiptID, f.OccurredAt}
}
