package audit

// InPagesOf makes the trail be verified in pages of n rows.
func (s *Store) InPagesOf(n int) { s.page = n }
