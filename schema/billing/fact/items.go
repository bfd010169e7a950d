package fact

import (
	"cmp"
	"slices"
)

// An event contains at most the first ten items of a subscription. The others are copied from another snapshot, or
// fetched.

// Completed returns the snapshots with the items that their events left out. It copies missing items from the last
// complete snapshot before, or else from the first complete snapshot. whole reports whether the last snapshot is
// complete then.
func Completed(snapshots []Fact) (list []Fact, whole bool) {
	if !slices.ContainsFunc(snapshots, func(f Fact) bool { return f.Subscription.Partial }) {
		return snapshots, true
	}
	isWhole := func(f Fact) bool { return !f.Subscription.Partial }
	first := slices.IndexFunc(snapshots, isWhole)
	if first < 0 {
		return snapshots, false
	}
	known := snapshots[first].Subscription
	for _, f := range snapshots {
		if isWhole(f) {
			known = f.Subscription
		} else {
			s := f.Subscription.with(known.Items)
			s.Before = s.Before.with(known.Items)
			f.Data = Data{Subscription: s}
		}
		list = append(list, f)
	}
	return list, true
}

// with returns s. If s is partial, it adds the elements of items that s lacks. s may be nil.
func (s *Subscription) with(items []Item) *Subscription {
	if s == nil || !s.Partial {
		return s
	}
	whole := *s
	whole.Items, whole.Partial = slices.Clone(s.Items), false
	for _, i := range items {
		if !slices.ContainsFunc(whole.Items, func(o Item) bool { return o.ID == i.ID }) {
			whole.Items = append(whole.Items, i)
		}
	}
	slices.SortStableFunc(whole.Items, CompareItems)
	return &whole
}

// shownBy reports whether o shows the same state as s. If s is partial, it compares only the items of s.
func (s *Subscription) shownBy(o *Subscription) bool {
	if !s.Partial {
		return s.same(o)
	}
	part := *o
	part.Items = slices.DeleteFunc(slices.Clone(o.Items), func(i Item) bool {
		return !slices.ContainsFunc(s.Items, func(shown Item) bool { return shown.ID == i.ID })
	})
	return s.same(&part)
}

// CompareItems orders the items of a snapshot, so that two snapshots with the same items are equal.
func CompareItems(a, b Item) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Price, b.Price))
}
