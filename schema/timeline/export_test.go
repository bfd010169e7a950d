package timeline

// ListStatement is what a list asks, with its arguments.
func ListStatement(f Filter) (sql string, args []any) { return f.statement() }

// Sums are the statements that sum what a list shows, by name.
func Sums() map[string]string {
	return map[string]string{"sum": summed(listSQL), "sum open": summed(listOpenSQL), "sum reason": summed(listReasonSQL),
		"sum kind": summed(listKindSQL), "sum about": summed(listAboutSQL)}
}
