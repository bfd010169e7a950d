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
	// Change is the largest change. The text describes it for people.
	Change Change `json:"change"`
	Says   string `json:"says"`
	// Differences are the rows that change.
	Differences []Difference `json:"differences"`
	// Letters are the kinds of emails that the change requires. A recomputation sends only the kinds that its job
	// allows.
	Letters []fold.Why `json:"-"`
}

// Change is the largest change of an account.
type Change string

// The changes, largest first. With ChangesRows the access stays the same.
const (
	LosesAccess     Change = "loses access"
	GainsAccess     Change = "gains access"
	ChangesPlan     Change = "another plan"
	ChangesSeats    Change = "more or fewer seats"
	ChangesFeatures Change = "other features"
	ChangesRows     Change = "rows alone"
)

// Changes lists all changes, largest first.
var Changes = []Change{LosesAccess, GainsAccess, ChangesPlan, ChangesSeats, ChangesFeatures, ChangesRows}

// Impacts groups differences by the accounts that own the rows before or after. The largest change comes first, then
// mode and account decide. A row without an account has no impact.
func Impacts(differences []Difference) (impacts []Impact) {
	index := map[billing.Scope]int{}
	for _, d := range differences {
		for _, account := range d.accounts() {
			scope := billing.Scope{Mode: d.Mode, Account: account}
			i, known := index[scope]
			if !known {
				i, index[scope] = len(impacts), len(impacts)
				impacts = append(impacts, Impact{Scope: scope, Change: ChangesRows})
			}
			impacts[i].Differences = append(impacts[i].Differences, d)
			if d.Table == "accounts" {
				impacts[i].Change, impacts[i].Says = d.change()
			}
		}
	}
	for i := range impacts {
		impacts[i].Letters = impacts[i].letters()
	}
	slices.SortFunc(impacts, func(a, b Impact) int {
		return cmp.Or(slices.Index(Changes, a.Change)-slices.Index(Changes, b.Change),
			cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Account, b.Account))
	})
	return impacts
}

// Destructive reports whether the account loses access or a feature, a row moves to another account or disappears, or a
// price that was known has another plan or quantity. Otherwise the recomputation only adds to the account.
func (i Impact) Destructive() bool {
	return i.Change == LosesAccess || slices.ContainsFunc(i.Differences, func(d Difference) bool {
		if d.Stored != nil && d.Computed == nil {
			return d.Table != "due"
		}
		// equal columns are missing
		changes := func(column string) bool { return cmp.Or(d.Stored[column], any("")) != "" }
		return changes("account") || missing("loses ", d.Computed, d.Stored) != "" ||
			!changes("state.UnknownPrice") && (changes("state.Plan") || changes("state.Quantity"))
	})
}

// letters returns the kinds of emails that the differences require, at most one about lost access.
func (i Impact) letters() (list []fold.Why) {
	for _, d := range i.Differences {
		for _, why := range d.letters {
			isLoss := func(w fold.Why) bool { return w != fold.DueChanged }
			if !isLoss(why) || i.Change == LosesAccess && !slices.ContainsFunc(list, isLoss) {
				list = append(list, why)
			}
		}
	}
	return list
}

// accounts returns the accounts that own the row before or after.
func (d Difference) accounts() (list []string) {
	list = append(list, d.Account)
	for _, side := range []map[string]any{d.Stored, d.Computed} {
		if account, ok := side["account"].(string); ok {
			list = append(list, account)
		}
	}
	return fact.Unique(slices.DeleteFunc(list, func(account string) bool { return account == "" }))
}

// change returns the change that a difference in the row of an account means, and describes it.
func (d Difference) change() (change Change, says string) {
	before, after := d.Stored, d.Computed
	differs := func(column string) bool { return fmt.Sprint(before[column]) != fmt.Sprint(after[column]) }
	plan := func(side map[string]any) string {
		if n, ok := side["target_quantity"].(float64); ok && n > 1 {
			return fmt.Sprintf("%v × %v", side["target_plan"], n)
		}
		return fmt.Sprint(side["target_plan"])
	}
	switch {
	case before["target_state"] == fold.WorkspaceActive && differs("target_state"):
		return LosesAccess, "loses " + plan(before)
	case after["target_state"] == fold.WorkspaceActive && differs("target_state"):
		return GainsAccess, "gains " + plan(after)
	case differs("target_plan"):
		return ChangesPlan, fmt.Sprintf("%v becomes %v", before["target_plan"], after["target_plan"])
	case differs("target_quantity"):
		return ChangesSeats, fmt.Sprintf("%v seats become %v", before["target_quantity"], after["target_quantity"])
	case differs("target_features"):
		return ChangesFeatures,
			strings.TrimSpace(missing("gains ", before, after) + " " + missing("loses ", after, before))
	}
	return ChangesRows, ""
}

// missing lists the features of side that from does not have, after verb. It returns "" if there is no such feature.
func missing(verb string, from, side map[string]any) string {
	had, _ := from["target_features"].([]any)
	has, _ := side["target_features"].([]any)
	var more []string
	for _, feature := range has {
		if !slices.Contains(had, feature) {
			more = append(more, fmt.Sprint(feature))
		}
	}
	if more == nil {
		return ""
	}
	return verb + strings.Join(more, ", ")
}
