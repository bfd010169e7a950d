package bench

import (
	"math"
	"slices"
	"time"
)

// percentile returns the p-th quantile (0.5 for the median) of sorted by the nearest rank, in milliseconds, or 0 for an
// empty list.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p*float64(len(sorted)))) - 1
	return float64(sorted[min(max(rank, 0), len(sorted)-1)]) / float64(time.Millisecond)
}

// median returns the median of values, or 0 for an empty list.
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

// row is a row of a table. Its figures always have the same order.
type row[R any] interface {
	*R
	figures() []*float64
}

// inTurns measures each of the rows once in every round, and returns them with the medians of their figures, rounded to
// significant digits. Round 0 fills caches and pools, and is not part of the medians.
func inTurns[R any, P row[R]](rows []R, rounds int, measure func(round int, r R) (R, error)) ([]R, error) {
	measured := make([][]R, len(rows))
	for round := range rounds + 1 {
		for i, r := range rows {
			r, err := measure(round, r)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				measured[i] = append(measured[i], r)
			}
		}
	}
	for i := range rows {
		for figure, of := range P(&rows[i]).figures() {
			var values []float64
			for round := range measured[i] {
				values = append(values, *P(&measured[i][round]).figures()[figure])
			}
			*of = math.Round(median(values)*100) / 100
		}
	}
	return rows, nil
}
