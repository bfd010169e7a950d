package fold_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/billing/fold"
)

func TestTaxOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ part, whole, tax, want int64 }{
		{5831, 5831, 931, 931},
		{831, 5831, 931, 132},
		{6000, 5831, 931, 931},
		{100, 0, 19, 19},
		{0, 5831, 931, 0},
		{0, -3887, -620, 0},
		{1 << 61, 1 << 62, 1 << 60, 1 << 59},
		{50, 100, -19, -19},
	} {
		if got := fold.TaxOf(tt.part, tt.whole, tt.tax); got != tt.want {
			t.Errorf("TaxOf(%d, %d, %d) = %d, want %d", tt.part, tt.whole, tt.tax, got, tt.want)
		}
	}
}
