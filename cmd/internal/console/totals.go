package console

import "github.com/pawlhq/pawl/cmd/internal/resource"

// totals are the newest totals of a list, and the link to the details.
type totals struct {
	Title, Href string
	Rows        shownTable
}

// totalsListed is the number of totals on the page of their list.
const totalsListed = 14

// readTotals returns the totals of a list, and the totals of the list beside it unless they are empty.
func readTotals(v *visit, about *resource.Description, env resource.Env, q resource.Query) (all []totals, err error) {
	q.Cursor, q.Limit = "", totalsListed
	read := func(name string, details *resource.Description) {
		var sums *resource.Page
		if sums, err = resource.Named(name).Read(v.ctx(), env, q); err == nil {
			href := details.Path + "?" + q.Values().Encode()
			all = append(all, totals{details.Title, href, newTable(sums.Table)})
		}
	}
	if about.Totals != "" {
		read(about.Totals, resource.Named(about.Totals).About())
	}
	if beside := resource.Named(about.Beside); beside != nil && err == nil {
		if read(beside.About().Totals, beside.About()); err == nil && len(all[len(all)-1].Rows.Rows) == 0 {
			all = all[:len(all)-1]
		}
	}
	return all, err
}
