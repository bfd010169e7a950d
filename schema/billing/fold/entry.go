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
	// Cash is the amount of money that moved. It is negative for outgoing money.
	Cash int64
	// Settlement is nil if it is unknown.
	Settlement *Settlement
	// SettlementUnknown is the reason why a requested settlement is nil, otherwise empty.
	SettlementUnknown string
	// Reference is the ID of the entry in the finance system.
	Reference string
	EffectKey string
}

// Settlement is the effect of a movement on the provider's balance, in minor units of its currency. Amount has the sign
// of the movement. Fee is the provider's fee; it is negative for a returned fee. Net is Amount minus Fee.
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

// Reversed returns the settlement of the complete reversal of a movement. It returns nil for nil.
func (s *Settlement) Reversed() *Settlement {
	if s == nil {
		return nil
	}
	return Settled(-s.Amount, -s.Fee, s.Currency)
}

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

// TaxOf returns the tax in a part of an amount in proportion to the tax in the whole, rounded down. The tax of a part
// is never larger than the tax of the whole. It is 0 for a part of 0, and for a negative whole: an invoice that credits
// more than it bills.
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
