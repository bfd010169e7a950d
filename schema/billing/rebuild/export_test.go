package rebuild

// RowsOf are the statements of [Rows], by name.
func RowsOf() map[string]string {
	all := map[string]string{}
	for _, p := range projections {
		all["rows of "+p.name] = p.rowsSQL()
	}
	return all
}
