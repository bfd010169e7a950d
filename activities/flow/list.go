package flow

import (
	"fmt"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/traits"
)

// planStep plans a step: once, or once for each item. Each item has its own key.
func (f *Flow) planStep(s *step, e *Event) (found []Planned, err error) {
	if s.forEach == nil {
		return s.planOnce(e.input(), 0, nil)
	}
	items, err := s.items(e)
	if err != nil {
		return nil, err
	}
	first := map[string]int{}
	for i, item := range items {
		if found, err = s.planOnce(e.input().with("item", item), i+1, found); err != nil {
			return nil, err
		}
		if len(found) == 0 || found[len(found)-1].Item != i+1 {
			continue
		}
		key := found[len(found)-1].Key
		if before := first[key]; before > 0 {
			return nil, &Error{Field: s.key.path,
				Problem: fmt.Sprintf("the items %d and %d have the same key", before, i+1)}
		}
		first[key] = i + 1
	}
	return found, nil
}

// planOnce adds the plan of a step to found, unless its condition is false.
func (s *step) planOnce(in input, item int, found []Planned) ([]Planned, error) {
	wanted, err := holds(s.when, in)
	if err != nil || !wanted {
		return found, err
	}
	next := Planned{Name: s.name, Item: item, Workflow: s.start != nil,
		Undo: s.undo != nil || s.undoStart != nil || s.title != nil}
	if next.Key, err = keyOf(s.key, in); err != nil {
		return nil, err
	}
	switch {
	case s.title != nil:
		_, err = s.titleOf(in)
	case s.start != nil && !s.start.waits:
		var w Start
		w, err = s.start.fill(in)
		next.Hash = w.Hash()
	case s.request != nil:
		if next.Sink = s.request.Sink; !s.request.waits {
			var r Request
			r, err = s.request.fill(in)
			next.Hash = r.Hash()
		}
	}
	if err != nil {
		return nil, err
	}
	return append(found, next), nil
}

// items returns the items of a step with for_each. They can be parts of the event, so they must not be changed. The
// length is checked first, because the conversion of a long list needs memory.
func (s *step) items(e *Event) ([]any, error) {
	v, err := s.forEach.evaluate(e.input())
	if err != nil {
		return nil, err
	}
	list, is := v.(traits.Lister)
	if !is {
		return nil, &Error{Field: s.forEach.path, Problem: "the value is not a list"}
	}
	if n, _ := list.Size().(types.Int); n > MaxItems {
		return nil, &Error{Field: s.forEach.path,
			Problem: fmt.Sprintf("the list has %d items, more than %d", n, MaxItems)}
	}
	return natives(list), nil
}
