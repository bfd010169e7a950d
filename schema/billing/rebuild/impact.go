package rebuild

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Impact is the effect of a recomputation on one account.
type Impact struct {
	billing.Scope
	// Change is the most important change of the account.
	Change Change `json:"change"`
	// Before and After are the targets of the account's workspace, which show its access. Both are empty if the access
	// does not change. Either is empty if there is no access.
	Before fold.Target `json:"before"`
	After  fold.Target `json:"after"`
	// Entries are the booked entries for which a task opens or closes.
	Entries []Entry `json:"entries"`
	// Rows are the rows that change.
	Rows []Difference `json:"rows"`
}

// Change is a kind of change of an account.
type Change string

// The kinds of changes, most important first. ChangesRows means that rows change but the access does not.
const (
	LosesAccess     Change = "loses access"
	GainsAccess     Change = "gains access"
	ChangesPlan     Change = "another plan"
	ChangesSeats    Change = "more or fewer seats"
	ChangesFeatures Change = "other features"
	ChangesRows     Change = "rows alone"
)

// Changes lists all kinds of changes, most important first.
var Changes = []Change{LosesAccess, GainsAccess, ChangesPlan, ChangesSeats, ChangesFeatures, ChangesRows}

// impactsOf groups differences by the accounts that own the row before or after the recomputation. It sorts the impacts
// by change, most important first, and then by mode and account. It adds an entry to the account of the stored row, and
// ignores rows without an account.
func impactsOf(differences []Difference, entries map[booked]Entry) (impacts []Impact) {
	index := map[billing.Scope]int{}
	for _, d := range differences {
		for _, account := range d.accounts() {
			scope := billing.Scope{Mode: d.Mode, Account: account}
			at, known := index[scope]
			if !known {
				at, index[scope] = len(impacts), len(impacts)
				impacts = append(impacts, Impact{Scope: scope, Change: ChangesRows, Entries: []Entry{}})
			}
			i := &impacts[at]
			i.Rows = append(i.Rows, d)
			if d.Table == "accounts" && !d.before.target.Same(d.after.target) {
				i.Before, i.After = d.before.target, d.after.target
				i.Change = changeOf(i.Before, i.After)
			}
			of := booked{d.Mode, d.object()}
			if entry, differs := entries[of]; differs && account == d.Account {
				i.Entries = append(i.Entries, entry)
				delete(entries, of)
			}
		}
	}
	slices.SortFunc(impacts, func(a, b Impact) int {
		return cmp.Or(slices.Index(Changes, a.Change)-slices.Index(Changes, b.Change),
			cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Account, b.Account))
	})
	return impacts
}

// changeOf returns the most important change between two different targets.
func changeOf(before, after fold.Target) Change {
	active := func(t fold.Target) bool { return t.State == fold.WorkspaceActive }
	switch {
	case active(before) && !active(after):
		return LosesAccess
	case active(after) && !active(before):
		return GainsAccess
	case before.Plan != after.Plan:
		return ChangesPlan
	case before.Quantity != after.Quantity:
		return ChangesSeats
	case !slices.Equal(before.Features, after.Features):
		return ChangesFeatures
	}
	return ChangesRows
}

// Destructive reports whether the account loses something: access or a feature, or a row, which disappears or moves to
// another account. It also returns true if a known price gets another plan or quantity. Otherwise the recomputation
// only adds to the account.
func (i Impact) Destructive() bool {
	return i.Change == LosesAccess || len(missing(i.After.Features, i.Before.Features)) > 0 ||
		slices.ContainsFunc(i.Rows, Difference.destructive)
}

// destructive reports whether the row disappears, moves to another account, or gets another plan or quantity.
func (d Difference) destructive() bool {
	if d.before.exists && !d.after.exists {
		return d.Table != "due"
	}
	if d.before.account != "" && d.before.account != d.after.account {
		return true
	}
	was, wasUnknown := saleOf(d.before.object)
	is, isUnknown := saleOf(d.after.object)
	return (wasUnknown == "" || wasUnknown == isUnknown) &&
		(was.Plan != "" && was.Plan != is.Plan || was.Quantity != 0 && was.Quantity != is.Quantity)
}

// saleOf returns the sale of an object: the plan, the quantity and the features of its prices. If the billing rules do
// not map the price of the object, unknown is the ID of the price.
func saleOf(o fold.Object) (sold fact.Sale, unknown string) {
	switch o := o.(type) {
	case *fold.Subscription:
		return o.Sale, o.UnknownPrice
	case *fold.Invoice:
		return o.Sale, o.UnknownPrice
	case *fold.Checkout:
		return o.Sale, ""
	}
	return sold, ""
}

// Message describes the change of the access for people. It is empty if the access stays the same.
func (i Impact) Message() string {
	plan := func(t fold.Target) string {
		if t.Quantity > 1 {
			return fmt.Sprintf("%s × %d", t.Plan, t.Quantity)
		}
		return t.Plan
	}
	switch i.Change {
	case LosesAccess:
		return "loses " + plan(i.Before)
	case GainsAccess:
		return "gains " + plan(i.After)
	case ChangesPlan:
		return i.Before.Plan + " becomes " + i.After.Plan
	case ChangesSeats:
		return fmt.Sprintf("%d seats become %d", i.Before.Quantity, i.After.Quantity)
	case ChangesFeatures:
		var parts []string
		if more := missing(i.Before.Features, i.After.Features); len(more) > 0 {
			parts = append(parts, "gains "+strings.Join(more, ", "))
		}
		if less := missing(i.After.Features, i.Before.Features); len(less) > 0 {
			parts = append(parts, "loses "+strings.Join(less, ", "))
		}
		return strings.Join(parts, " ")
	}
	return ""
}

// missing returns the elements of features that from does not contain.
func missing(from, features []string) (list []string) {
	for _, feature := range features {
		if !slices.Contains(from, feature) {
			list = append(list, feature)
		}
	}
	return list
}
