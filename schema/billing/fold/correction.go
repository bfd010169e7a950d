package fold

import "time"

// Correction is a booked difference that a person decided about.
type Correction struct {
	// Key is the key of the correcting effect, Corrects the key of the corrected entry.
	Key, Corrects string
	Account       string
	// ProviderAccount, Object and Invoice are the fields of the entry.
	ProviderAccount, Object, Invoice string
	// Amount and Tax are in minor units of Currency. They are negative if too much was booked.
	Amount, Tax int64
	Currency    string
	At          time.Time
}
