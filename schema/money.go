package schema

import "math"

// Total returns the SQL of the sum of amounts. The sum saturates at the ends of 64 bits, so that an absurd amount makes
// one sum wrong and no query fail.
func Total(amounts string) string {
	return "greatest(least(sum(" + amounts + "), 9223372036854775807), -9223372036854775808)::bigint"
}

// Plus adds two amounts of money. The sum saturates at the ends of 64 bits, like [Total].
func Plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
