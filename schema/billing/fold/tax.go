package fold

import "math/bits"

// TaxOf returns the tax in a part of an amount in proportion to the tax in the whole, rounded down. The tax of a part
// is never larger than the tax of the whole. It is 0 for a part of 0, and for a negative whole: an invoice that credits
// more than it bills.
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
