package timeline

// ListStatement is the statement of a list, with its arguments.
func ListStatement(f Filter) (sql string, args []any) {
	found, args := f.found()
	return found + shown, args
}

// Lists contains the statements of lists and their sums, by name.
func Lists() map[string]string {
	all := map[string]string{}
	for way, found := range map[string]string{"": findAll, " open": findOpen, " reason": findReason, " kind": findKind,
		" about": findAbout, " account": findAccount, " outage": findOutage} {
		all["list"+way], all["sum"+way] = found+shown, found+summed
	}
	return all
}
