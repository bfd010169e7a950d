package schema

import "math"

// Total returns the SQL expression for the sum of amounts. A sum that does not fit into 64 bits becomes the largest or
// smallest value. An absurd amount therefore makes one sum wrong, but does not make the query fail.
func Total(amounts string) string {
	return "greatest(least(sum(" + amounts + "), 9223372036854775807), -9223372036854775808)::bigint"
}

// Plus adds two amounts of money. A sum that does not fit into 64 bits becomes the largest or smallest value, as in
// [Total].
func Plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
