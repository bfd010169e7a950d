package timeline

// ListStatement is what a list asks, with its arguments.
func ListStatement(f Filter) (sql string, args []any) { return f.statement() }
