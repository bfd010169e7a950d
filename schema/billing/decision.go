package billing

import "slices"

// withheld reports whether what the object gives was taken back: a fact that says so counts while the prices of the
// plan are those that it names, until they are given again. The facts are in their order.
func withheld(facts []Fact, prices []Bought) (back bool) {
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

// OnHold reports whether a hold is on the object that the facts are about, a subscription or an account: the last of
// its holds and releases decides.
func OnHold(facts []Fact) bool {
	_, held := holdOf(facts)
	return held
}

// holdOf returns the last of the holds and releases, and whether it holds.
func holdOf(facts []Fact) (last Fact, held bool) {
	for _, f := range InOrder(facts, Held, Released) {
		last, held = f, f.Kind == Held
	}
	return last, held
}

// lostBy returns the fact that told that the dispute that holds the object was lost. It is zero for any other hold
// and for none. A lost object is over: nobody decides about it any more.
func lostBy(facts []Fact) Cause {
	hold, held := holdOf(facts)
	if !held || hold.Decision.By != hold.Object || stage(hold.Decision.Why) != "lost" {
		return Cause{}
	}
	return causeOf(hold)
}
