package billing

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// A fold anew sends no letter by itself. The letters that it calls for are counted before, and the clock sends those
// that a person has chosen.

// letters are those that a change of an object calls for where no event tells of it. lost is set if the account has
// lost its access with it.
func letters(was, is fold.Object, lost bool) (list []fold.Why) {
	switch o := is.(type) {
	case *fold.Subscription:
		before, _ := was.(*fold.Subscription)
		if before != nil && before.Granting() && o.Granting() && o.ChangedFrom(before) && o.Given().Plan != "" {
			list = append(list, fold.DueChanged)
		}
		switch {
		case !lost:
		case o.Ended() && o.EverGranted:
			list = append(list, fold.DueEnded)
		case !o.Ended() && o.Taken() != "":
			list = append(list, fold.DueTaken)
		}
	case interface{ Order() fold.Order }:
		if order := o.Order(); lost && order.Sold() && order.Taken() != "" {
			list = append(list, fold.DueTaken)
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
	lost := before.State == fold.WorkspaceActive && after.Target.State == fold.WorkspaceSuspended
	for _, o := range a.touched() {
		ref := o.Reference()
		if ref.Account == "" || ref.Account != after.Account {
			continue
		}
		for _, why := range letters(a.before[fold.KeyOf(o)], o, lost) {
			if slices.Contains(n.Letters, why) {
				await(b, a.subject.Mode, ref.ID+" letters", ref.Account,
					fold.Due{At: a.at, Why: why, Object: ref.ID, Cause: fact.CauseOf(a.facts[0])})
			}
		}
	}
}

// letters are those that a row which differs calls for, were access lost with it.
func (p projection) letters(is, folded []byte) ([]fold.Why, error) {
	of := map[string]fold.Kind{"subscriptions": fold.KindSubscription, "invoices": fold.KindInvoice, "objects": ""}
	table, known := of[p.name]
	if !known || is == nil || folded == nil {
		return nil, nil
	}
	var sides [2]fold.Object
	for i, data := range [][]byte{is, folded} {
		var row struct {
			Kind  fold.Kind
			State json.RawMessage
		}
		if err := json.Unmarshal(data, &row); err != nil {
			return nil, err
		}
		list := fold.Objects{}
		if err := list.Add(cmp.Or(table, row.Kind), row.State); err != nil {
			return nil, err
		}
		sides[i] = list.List()[0]
	}
	return letters(sides[0], sides[1], true), nil
}

// letters are those of the account's rows: of what it has lost, it is told once.
func (h Hit) letters() (list []fold.Why) {
	for _, d := range h.Differences {
		for _, why := range d.letters {
			isLoss := func(w fold.Why) bool { return w != fold.DueChanged }
			if !isLoss(why) || h.Change == HitLoses && !slices.ContainsFunc(list, isLoss) {
				list = append(list, why)
			}
		}
	}
	return list
}
