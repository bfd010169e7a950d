package fact

import (
	"cmp"
	"slices"
	"time"
)

// InOrder returns the facts of the given kinds in order and without duplicates. Without kinds it returns all facts. The
// order is total: by second, then by rank, then by event ID.
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

// SortChanges finds the change that happened last in each second and moves it to the end of that second, because event
// IDs do not indicate the order. The snapshots must belong to one subscription and be [InOrder]. SortChanges returns
// false if the last change of the last second is ambiguous.
func SortChanges(snapshots []Fact, p Policy) (certain bool) {
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

// stateBefore returns the subscription before a second. For a subscription that was created in that second, it returns
// the created state. It returns nil if neither is known. Other snapshots of the second may have been taken between its
// changes.
func stateBefore(snapshots []Fact, second time.Time) *Subscription {
	for _, f := range slices.Backward(snapshots) {
		if f.OccurredAt.Before(second) || f.Rank == RankCreated {
			return f.Subscription
		}
	}
	return nil
}

func sameMoment(a, b Fact) bool { return a.OccurredAt.Equal(b.OccurredAt) && a.Rank == b.Rank }

// lastChange returns the index of the last change within one second. Each change leads from one state to another. Only
// the final state is reached more often than it is left. If there is no such state, the changes form a cycle, which
// ends in the state before.
//
// If the final state is ambiguous, certain is false. lastChange then selects the state that grants more, and among
// equal states the change with the greater event ID.
func lastChange(changes []Fact, before *Subscription, p Policy) (last int, certain bool) {
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

// reached counts for a state how often the changes reach it, minus how often they leave it.
type reached struct {
	state *Subscription
	times int
}

// statesOf returns the states that the changes reach or leave. A snapshot without previous attributes shows a state,
// but not a change. It counts as one change to that state if no other change reaches or leaves it.
func statesOf(changes []Fact) []reached {
	var states []reached
	count := func(state *Subscription, times int) {
		i := slices.IndexFunc(states, func(s reached) bool { return s.state.same(state) })
		if i < 0 {
			states, i = append(states, reached{state: state}), len(states)
		}
		states[i].times += times
	}
	leads := func(s *Subscription) bool { return s.Before != nil && !s.Before.same(s) }
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

// compareGiven orders two states of a subscription by their grants: first by status, then by plan, quantity and planned
// end.
func compareGiven(a, b *Subscription, p Policy) int {
	worth := func(s *Subscription) int {
		return slices.Index([]string{"past_due", "trialing", "active"}, s.Status)
	}
	boughtA, boughtB := a.Purchase(p), b.Purchase(p)
	return cmp.Or(cmp.Compare(worth(a), worth(b)), p.Compare(boughtA.Plan, boughtB.Plan),
		cmp.Compare(boughtA.Quantity, boughtB.Quantity),
		CompareEnds(PlannedEnd(a, boughtA.End), PlannedEnd(b, boughtB.End)))
}

// CompareEnds orders two end times. The zero time means no end and is the latest.
func CompareEnds(a, b time.Time) int {
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

// same reports whether two snapshots are equal. It ignores the field Before.
func (s *Subscription) same(o *Subscription) bool {
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
