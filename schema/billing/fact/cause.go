package fact

import "time"

// Cause identifies a fact, so that effects, entries and e-mails can refer to the fact that caused them.
type Cause struct {
	Provider        string
	ProviderAccount string `json:",omitempty"`
	EventID         string
	ReceiptID       string
	At              time.Time
}

// CauseOf returns the reference to a fact.
func CauseOf(f Fact) Cause {
	return Cause{f.Provider, f.ProviderAccount, f.EventID, f.ReceiptID, f.OccurredAt}
}
