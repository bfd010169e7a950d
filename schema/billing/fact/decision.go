package fact

import "slices"

// TookBack reports whether the grant of an object is withheld. A Withheld fact applies until a Reopened fact follows,
// or until the prices of the object differ from the prices in the Withheld fact. The facts must be in the order of
// [InOrder].
func TookBack(facts []Fact, prices []Bought) (back bool) {
	for _, f := range facts {
		switch f.Kind {
		case Withheld:
			back = back || slices.Equal(f.Decision.Prices, prices)
		case Reopened:
			back = false
		}
	}
	return back
}

// OnHold reports whether a subscription or an account is on hold. The last Held or Released fact determines the result.
func OnHold(facts []Fact) bool {
	_, held := LastHold(facts)
	return held
}

// LastHold returns the last Held or Released fact. held is true if it is a Held fact.
func LastHold(facts []Fact) (last Fact, held bool) {
	for _, f := range InOrder(facts, Held, Released) {
		last, held = f, f.Kind == Held
	}
	return last, held
}

// ByDispute reports whether a dispute, and not a person, caused the hold.
func (f Fact) ByDispute() bool { return f.Decision != nil && f.Decision.By == f.Object }

// HoldsAccount reports whether the fact holds or releases an account as a whole.
func (f Fact) HoldsAccount() bool { return f.Decision != nil && f.Decision.Account == f.Object }
