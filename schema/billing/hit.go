package billing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Hit is an account whose rows would be others by another meaning.
type Hit struct {
	Scope
	// Change is the effect on the account, Says describes it in words.
	Change HitChange `json:"change"`
	Says   string    `json:"says"`
	// Differences are the rows that would change.
	Differences []Difference `json:"differences"`
	// Letters are those that its customer would have of it, were they wanted.
	Letters []fold.Why `json:"-"`
}

// HitChange is the most that changes for an account.
type HitChange string

// The changes, the most first. HitRows: what the account may use stays.
const (
	HitLoses    HitChange = "loses access"
	HitGains    HitChange = "gains access"
	HitPlan     HitChange = "another plan"
	HitSeats    HitChange = "more or fewer seats"
	HitFeatures HitChange = "other features"
	HitRows     HitChange = "rows alone"
)

// HitChanges lists them.
var HitChanges = []HitChange{HitLoses, HitGains, HitPlan, HitSeats, HitFeatures, HitRows}

// Hits returns the accounts that rows which differ belong to, or would belong to: who loses most comes first.
func Hits(differences []Difference) (hits []Hit) {
	at := map[Scope]int{}
	for _, d := range differences {
		for _, account := range d.accounts() {
			of := Scope{d.Mode, account}
			i, known := at[of]
			if !known {
				i, at[of] = len(hits), len(hits)
				hits = append(hits, Hit{Scope: of, Change: HitRows})
			}
			hits[i].Differences = append(hits[i].Differences, d)
			if d.Table == "accounts" {
				hits[i].Change, hits[i].Says = d.hit()
			}
		}
	}
	for i := range hits {
		hits[i].Letters = hits[i].letters()
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(slices.Index(HitChanges, a.Change)-slices.Index(HitChanges, b.Change),
			cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Account, b.Account))
	})
	return hits
}

// Overturns reports whether the account loses something, a row has another account, or a price that was known means
// something else. Otherwise the account only has more.
func (h Hit) Overturns() bool {
	return h.Change == HitLoses || slices.ContainsFunc(h.Differences, func(d Difference) bool {
		if d.Is != nil && d.Folded == nil {
			return d.Table != "due"
		}
		other := func(column string) bool { return cmp.Or(d.Is[column], any("")) != "" } // only what differs is there
		return other("account") || others("loses ", d.Folded, d.Is) != "" ||
			!other("state.UnknownPrice") && (other("state.Plan") || other("state.Quantity"))
	})
}

// accounts are those that a row belongs to, and would belong to.
func (d Difference) accounts() (list []string) {
	list = append(list, d.Account)
	for _, side := range []map[string]any{d.Is, d.Folded} {
		if account, ok := side["account"].(string); ok {
			list = append(list, account)
		}
	}
	return fact.Unique(slices.DeleteFunc(list, func(account string) bool { return account == "" }))
}

// hit says what a difference in the row of an account means.
func (d Difference) hit() (change HitChange, says string) {
	was, is := d.Is, d.Folded
	differs := func(column string) bool { return fmt.Sprint(was[column]) != fmt.Sprint(is[column]) }
	uses := func(side map[string]any) string {
		if n, ok := side["target_quantity"].(float64); ok && n > 1 {
			return fmt.Sprintf("%v × %v", side["target_plan"], n)
		}
		return fmt.Sprint(side["target_plan"])
	}
	switch {
	case was["target_state"] == fold.WorkspaceActive && differs("target_state"):
		return HitLoses, "loses " + uses(was)
	case is["target_state"] == fold.WorkspaceActive && differs("target_state"):
		return HitGains, "gains " + uses(is)
	case differs("target_plan"):
		return HitPlan, fmt.Sprintf("%v becomes %v", was["target_plan"], is["target_plan"])
	case differs("target_quantity"):
		return HitSeats, fmt.Sprintf("%v seats become %v", was["target_quantity"], is["target_quantity"])
	case differs("target_features"):
		return HitFeatures, strings.TrimSpace(others("gains ", was, is) + " " + others("loses ", is, was))
	}
	return HitRows, ""
}

// others names the features on one side that the other has not.
func others(what string, than, side map[string]any) string {
	had, _ := than["target_features"].([]any)
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
	return what + strings.Join(more, ", ")
}
