package billing

import "math/bits"

// TaxOf returns the tax in a part of an amount, in proportion and rounded down, given the tax in the whole. A part
// that is larger than the whole has no more tax than that. Nothing has none, also of a whole that is negative: an
// invoice that credits more than it bills.
func TaxOf(part, whole, tax int64) int64 {
	if part <= 0 {
		return 0
	}
	if part >= whole || tax <= 0 {
		return tax
	}
	high, low := bits.Mul64(uint64(part), uint64(tax)) // the product may not fit into 64 bits
	share, _ := bits.Div64(high, low, uint64(whole))
	return int64(share)
}
