package fold

import (
	"math/bits"
	"time"
)

// Entry is a finance entry. ProviderAccount is the connected account; it is empty for the platform account.
type Entry struct {
	Mode, Account, ProviderAccount, Object, Invoice, Kind string
	// Amount and Tax are in minor units of Currency.
	Amount, Tax int64
	Currency    string
	// Cash is the amount of money that moved. It is negative if money was paid out.
	Cash int64
	// Settlement is the movement on the provider's balance. It is nil if unknown.
	Settlement *Settlement
	// SettlementUnknown is the reason why Settlement is nil although it was requested. It is empty otherwise.
	SettlementUnknown string
	// Method is the way in which the money moved. It is empty if Kind implies it. OccurredAt is when the money moved.
	Method     string
	OccurredAt time.Time
	// Reference is the ID of the entry in the finance system.
	Reference string
	EffectKey string
}

// Settlement is how a movement of money changed the provider's balance, in minor units of the balance's currency.
// Amount is positive for incoming money. Fee is the provider's fee; it is negative if the provider returned a fee. Net
// is Amount minus Fee.
type Settlement struct {
	Amount   int64  `json:"amount"`
	Fee      int64  `json:"fee"`
	Net      int64  `json:"net"`
	Currency string `json:"currency"`
}

// Settled returns the settlement of a movement with a fee.
func Settled(amount, fee int64, currency string) *Settlement {
	return &Settlement{Amount: amount, Fee: fee, Net: amount - fee, Currency: currency}
}

// Reversed returns the settlement that reverses s completely. It returns nil if s is nil.
func (s *Settlement) Reversed() *Settlement {
	if s == nil {
		return nil
	}
	return Settled(-s.Amount, -s.Fee, s.Currency)
}

// Correction is a person's decision about a wrong entry: the difference is booked.
type Correction struct {
	// Key is the effect key of the correction. Corrects is the effect key of the wrong entry.
	Key, Corrects string
	Account       string
	// ProviderAccount, Object and Invoice are copied from the wrong entry.
	ProviderAccount, Object, Invoice string
	// Amount and Tax are in minor units of Currency. They are negative if the wrong entry was too high.
	Amount, Tax int64
	Currency    string
	At          time.Time
}

// TaxOf returns the tax in a part of an amount. whole is the whole amount and tax the tax in it. The result is
// proportional, is rounded down, and never exceeds tax. It is 0 if part is 0, or if whole is negative because an
// invoice credits more than it bills.
func TaxOf(part, whole, tax int64) int64 {
	if part <= 0 {
		return 0
	}
	if part >= whole || tax <= 0 {
		return tax
	}
	high, low := bits.Mul64(uint64(part), uint64(tax)) // the product may not fit into 64 bits
	share, _ := bits.Div64(high, low, uint64(whole))
	return int64(share)
}
