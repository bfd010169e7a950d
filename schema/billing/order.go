package billing

import (
	"cmp"
	"slices"
	"time"
)

// InOrder returns the facts of some kinds in their order of occurrence, each once. All kinds are meant where none is
// named. The order is total: by second, then by rank, then by event.
func InOrder(facts []Fact, kinds ...Kind) []Fact {
	ordered := slices.Clone(facts)
	if len(kinds) > 0 {
		ordered = slices.DeleteFunc(ordered, func(f Fact) bool { return !slices.Contains(kinds, f.Kind) })
	}
	slices.SortFunc(ordered, compareFacts)
	return slices.CompactFunc(ordered, func(a, b Fact) bool { return compareFacts(a, b) == 0 })
}

func compareFacts(a, b Fact) int {
	return cmp.Or(a.OccurredAt.Compare(b.OccurredAt), cmp.Compare(a.Rank, b.Rank),
		cmp.Compare(a.EventID, b.EventID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
}

// chain takes the snapshots of a subscription [InOrder] and puts, of the changes of each second, the last one last:
// their events' IDs say nothing about their order. It returns false where the last of all cannot be told.
func chain(snapshots []Fact, p Policy) (certain bool) {
	certain = true
	for first := 0; first < len(snapshots); {
		end := first + 1
		for end < len(snapshots) && sameMoment(snapshots[first], snapshots[end]) {
			end++
		}
		certain = true
		if second := snapshots[first:end]; len(second) > 1 && second[0].Rank == RankChange {
			var last int
			last, certain = lastChange(second, stateBefore(snapshots[:first], second[0].OccurredAt), p)
			moved := second[last]
			copy(second[last:], second[last+1:])
			second[len(second)-1] = moved
		}
		first = end
	}
	return certain
}

// stateBefore returns the last state from before a second, or the one that was created in it; nil for none. The other
// snapshots of that second were taken between its changes.
func stateBefore(snapshots []Fact, second time.Time) *SubscriptionFact {
	for _, f := range slices.Backward(snapshots) {
		if f.OccurredAt.Before(second) || f.Rank == RankCreated {
			return f.Subscription
		}
	}
	return nil
}

func sameMoment(a, b Fact) bool { return a.OccurredAt.Equal(b.OccurredAt) && a.Rank == b.Rank }

// lastChange returns which of the changes of one second is the last. A change leads from one state to another, so the
// last state is reached more often than it is left. If no state is, the changes go in a circle and end in the state
// that they began in. If that does not decide either, lastChange returns false, and the change to the state that
// grants more, then the one with the greater event ID.
func lastChange(changes []Fact, before *SubscriptionFact, p Policy) (last int, certain bool) {
	states := statesOf(changes)
	ends := slices.DeleteFunc(slices.Clone(states), func(s reached) bool { return s.times <= 0 })
	switch {
	case len(states) == 1:
		ends = states
	case len(ends) == 0 && before != nil:
		ends = slices.DeleteFunc(slices.Clone(states), func(s reached) bool { return !s.state.same(before) })
	}
	certain = len(ends) == 1
	if len(ends) == 0 {
		ends = states
	}
	last = -1
	for i, c := range changes {
		isEnd := slices.ContainsFunc(ends, func(s reached) bool { return s.state.same(c.Subscription) })
		if isEnd && (last < 0 || compareGiven(changes[last].Subscription, c.Subscription, p) <= 0) {
			last = i
		}
	}
	return last, certain
}

// reached is a state, and how many times more often it is reached than left.
type reached struct {
	state *SubscriptionFact
	times int
}

// statesOf returns the states that changes lead to and from. A snapshot without an earlier state, or without a change
// that is kept here, tells only that its state existed. That state counts as reached once if no change leads to it or
// away from it.
func statesOf(changes []Fact) []reached {
	var states []reached
	count := func(state *SubscriptionFact, times int) {
		i := slices.IndexFunc(states, func(s reached) bool { return s.state.same(state) })
		if i < 0 {
			states, i = append(states, reached{state: state}), len(states)
		}
		states[i].times += times
	}
	leads := func(s *SubscriptionFact) bool { return s.Before != nil && !s.Before.same(s) }
	for _, c := range changes {
		if s := c.Subscription; leads(s) {
			count(s, 1)
			count(s.Before, -1)
		}
	}
	for _, c := range changes {
		s := c.Subscription
		if !leads(s) && !slices.ContainsFunc(states, func(r reached) bool { return r.state.same(s) }) {
			count(s, 1)
		}
	}
	return states
}

// compareGiven orders two states of a subscription by what they grant: the status first, then plan and quantity, then
// the planned end.
func compareGiven(a, b *SubscriptionFact, p Policy) int {
	worth := func(s *SubscriptionFact) int {
		return slices.Index([]string{"past_due", "trialing", "active"}, s.Status)
	}
	boughtA, boughtB := a.purchase(p), b.purchase(p)
	return cmp.Or(cmp.Compare(worth(a), worth(b)), p.Compare(boughtA.Plan, boughtB.Plan),
		cmp.Compare(boughtA.Quantity, boughtB.Quantity),
		compareEnds(plannedEnd(a, boughtA.end), plannedEnd(b, boughtB.end)))
}

// compareEnds orders two end times. No end at all is the latest.
func compareEnds(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}

// same reports whether two snapshots show the same subscription, whatever earlier state they name.
func (s *SubscriptionFact) same(o *SubscriptionFact) bool {
	return s.Status == o.Status && s.CancelAtPeriodEnd == o.CancelAtPeriodEnd &&
		s.CollectionPaused == o.CollectionPaused &&
		s.CollectionMethod == o.CollectionMethod && s.MissingPayment == o.MissingPayment &&
		s.PaymentMethod == o.PaymentMethod && s.Account == o.Account && s.Plan == o.Plan &&
		s.Start.Equal(o.Start) && s.TrialEnd.Equal(o.TrialEnd) && s.CancelAt.Equal(o.CancelAt) &&
		s.CanceledAt.Equal(o.CanceledAt) && s.EndedAt.Equal(o.EndedAt) && slices.EqualFunc(s.Items, o.Items, Item.same)
}

func (i Item) same(o Item) bool {
	return i.ID == o.ID && i.Price == o.Price && i.Quantity == o.Quantity && i.Metered == o.Metered &&
		i.PeriodStart.Equal(o.PeriodStart) && i.PeriodEnd.Equal(o.PeriodEnd)
}
