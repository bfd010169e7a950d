package bench

import (
	"math"
	"slices"
	"time"
)

// percentile returns the p-th part (0.5 for the median) of sorted by the nearest rank, in milliseconds; 0 for an
// empty list.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p*float64(len(sorted)))) - 1
	return float64(sorted[min(max(rank, 0), len(sorted)-1)]) / float64(time.Millisecond)
}

// median returns the middle of values, the mean of the two in the middle of an even number; 0 for an empty list.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// medianOf is the median of a field over the rounds, rounded to what a measurement can tell.
func medianOf[T any](rounds []T, field func(T) float64) float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = field(r)
	}
	return math.Round(median(values)*100) / 100
}
