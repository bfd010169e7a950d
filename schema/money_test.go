package schema_test

import (
	"math"
	"testing"

	"github.com/pawlhq/pawl/schema"
)

func TestPlus_StopsAtTheEndsOf64Bits(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int64{
		{1, 2, 3}, {-1, -2, -3}, {math.MaxInt64, 1, math.MaxInt64}, {1, math.MaxInt64, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64}, {-1, math.MinInt64, math.MinInt64}, {math.MaxInt64, math.MinInt64, -1},
		{math.MinInt64, math.MaxInt64, -1}, {0, math.MinInt64, math.MinInt64},
	} {
		if got := schema.Plus(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
