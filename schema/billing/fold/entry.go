package fold

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
