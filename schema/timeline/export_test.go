package timeline

// ListStatement is what a list asks, with its arguments.
func ListStatement(f Filter) (sql string, args []any) {
	found, args := f.found()
	return found + shown, args
}

// Lists are the statements of lists and of what sums them up, by name.
func Lists() map[string]string {
	all := map[string]string{}
	for way, found := range map[string]string{"": findAll, " open": findOpen, " reason": findReason, " kind": findKind,
		" about": findAbout} {
		all["list"+way], all["sum"+way] = found+shown, found+summed
	}
	return all
}
