package retention

// SetRows sets the number of rows that one statement visits.
func (s *Sweep) SetRows(n int) { s.rows = n }
