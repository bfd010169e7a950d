package billing

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A fold anew sends no letter by itself. The letters that it calls for are counted before, and the clock sends those
// that a person has chosen.

// letters are those that a change of an object calls for where no event tells of it. lost is set if the account has
// lost its access with it.
func letters(was, is Object, lost bool) (list []Why) {
	switch o := is.(type) {
	case *Subscription:
		before, _ := was.(*Subscription)
		if before != nil && before.Granting() && o.Granting() && o.changedFrom(before) && o.Given().Plan != "" {
			list = append(list, DueChanged)
		}
		switch {
		case !lost:
		case o.Ended() && o.EverGranted:
			list = append(list, DueEnded)
		case !o.Ended() && o.Taken() != "":
			list = append(list, DueTaken)
		}
	case interface{ Order() Order }:
		if order := o.Order(); lost && order.sold && order.Taken() != "" {
			list = append(list, DueTaken)
		}
	}
	return list
}

// sendLetters has the clock send the letters that were chosen.
func (n *Anew) sendLetters(a *applying, b *pgx.Batch) {
	if n == nil {
		return
	}
	before, after := a.change.Before.Access.Target, a.change.After.Access
	lost := before.State == WorkspaceActive && after.Target.State == WorkspaceSuspended
	for _, o := range a.touched() {
		ref := o.ref()
		if ref.Account == "" || ref.Account != after.Account {
			continue
		}
		for _, why := range letters(a.before[keyOf(o)], o, lost) {
			if slices.Contains(n.Letters, why) {
				await(b, a.subject.Mode, ref.ID+" letters", ref.Account,
					Due{At: a.at, Why: why, Object: ref.ID, Cause: causeOf(a.facts[0])})
			}
		}
	}
}

// letters are those that a row which differs calls for, were access lost with it.
func (p projection) letters(is, folded []byte) ([]Why, error) {
	of := map[string]kind{"subscriptions": kindSubscription, "invoices": kindInvoice, "objects": ""}
	table, known := of[p.name]
	if !known || is == nil || folded == nil {
		return nil, nil
	}
	var sides [2]Object
	for i, data := range [][]byte{is, folded} {
		var row struct {
			Kind  kind
			State json.RawMessage
		}
		if err := json.Unmarshal(data, &row); err != nil {
			return nil, err
		}
		list := objects{}
		if err := list.add(cmp.Or(table, row.Kind), row.State); err != nil {
			return nil, err
		}
		sides[i] = list.list()[0]
	}
	return letters(sides[0], sides[1], true), nil
}

// letters are those of the account's rows: of what it has lost, it is told once.
func (h Hit) letters() (list []Why) {
	for _, d := range h.Differences {
		for _, why := range d.letters {
			isLoss := func(w Why) bool { return w != DueChanged }
			if !isLoss(why) || h.Change == HitLoses && !slices.ContainsFunc(list, isLoss) {
				list = append(list, why)
			}
		}
	}
	return list
}
