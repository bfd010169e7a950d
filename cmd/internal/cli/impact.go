package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// shownImpacts is how many accounts and facts a screen shows.
const shownImpacts = 50

// impactRows lists the accounts that a recomputation changes.
func impactRows(impacts []rebuild.Impact) output.Table {
	return output.Rows("ACCOUNT|MODE|CHANGE|WHAT|ENTRIES", impacts[:min(shownImpacts, len(impacts))],
		func(i rebuild.Impact) []any {
			return []any{i.Account, i.Mode, i.Change, cmp.Or(i.Message(), output.Plural(len(i.Rows), "row")),
				entriesOf(i)}
		})
}

// entriesOf describes the booked entries in impacts that differ from the facts, with the sum of the differences, and
// the entries that do not differ any more.
func entriesOf(impacts ...rebuild.Impact) string {
	differ, equal, money := 0, 0, map[string]int64{}
	for _, i := range impacts {
		for _, e := range i.Entries {
			if e.Closes {
				equal++
				continue
			}
			differ++
			for currency, amount := range e.Money {
				money[currency] = schema.Plus(money[currency], amount)
			}
		}
	}
	var parts []string
	if differ > 0 {
		parts = append(parts, fmt.Sprintf("%d differ%s", differ, tables.InBrackets(decide.Sums(money))))
	}
	if equal > 0 {
		parts = append(parts, fmt.Sprintf("%d match again", equal))
	}
	return strings.Join(parts, ", ")
}

// impactTotal counts the accounts by their change, and the entries.
func impactTotal(impacts []rebuild.Impact, counts map[rebuild.Change]int) string {
	var list []string
	for _, change := range rebuild.Changes {
		if n := counts[change]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, change))
		}
	}
	total := output.Plural(len(impacts), "account") + tables.InBrackets(strings.Join(list, ", "))
	if entries := entriesOf(impacts...); entries != "" {
		total += "; entries: " + entries
	}
	return total
}
