package billing

// withheld reports whether what the object gives was taken back: a fact that says so counts while plan and quantity are
// those that it names, until they are given again. The facts are in their order.
func withheld(facts []Fact, plan string, quantity int64) (back bool) {
	for _, f := range facts {
		switch f.Kind {
		case Withheld:
			back = back || f.Decision.Plan == plan && f.Decision.Quantity == quantity
		case Reopened:
			back = false
		}
	}
	return back
}

// OnHold reports whether a hold is on the object that the facts are about, a subscription or an account: the last of its
// holds and releases decides.
func OnHold(facts []Fact) (held bool) {
	for _, f := range InOrder(facts, Held, Released) {
		held = f.Kind == Held
	}
	return held
}
