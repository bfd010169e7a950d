package audit

// InPagesOf sets the page size of Verify to n rows.
func (s *Store) InPagesOf(n int) { s.page = n }
