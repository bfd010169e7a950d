package tables

import (
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/people"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// People lists people.
func People(all []people.Listed) output.Table {
	return output.Rows("NAME|ROLES|STATE|SINCE|LAST CHANGE", all, func(p people.Listed) []any {
		var roles []string
		for _, r := range p.Roles {
			roles = append(roles, string(r))
		}
		return []any{p.Name, strings.Join(roles, ", "), output.Badge(p.State), p.AddedAt, p.ChangedAt}
	})
}
