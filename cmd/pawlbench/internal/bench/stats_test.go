package bench

import (
	"strings"
	"testing"
	"time"
)

func TestPercentile_NearestRank(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1)*time.Millisecond)
	}
	for _, tt := range []struct {
		of   []time.Duration
		p    float64
		want float64
	}{
		{nil, 0.5, 0},
		{hundred[:1], 0.99, 1},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred[:3], 0.5, 2},
	} {
		if got := percentile(tt.of, tt.p); got != tt.want {
			t.Errorf("percentile(%d values, %v) = %v, want %v", len(tt.of), tt.p, got, tt.want)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of   []float64
		want float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(tt.of); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.of, got, tt.want)
		}
	}
}

// Each row has the medians of its own figures, and the warm-up round does not count.
func TestInTurns_Medians(t *testing.T) {
	t.Parallel()
	var order []string
	got, err := inTurns([]FlowResult{{Mode: "a"}, {Mode: "b"}}, 3, func(round int, r FlowResult) (FlowResult, error) {
		order = append(order, r.Mode)
		r.P50, r.Spent = []float64{99, 3, 1, 2.004}[round], Spent{WALKB: float64(round), CPU: CPU{Temporal: float64(8 - round)}}
		if r.Mode == "b" {
			r.P50++
		}
		return r, nil
	})
	if err != nil || len(got) != 2 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	want := FlowResult{Mode: "a", P50: 2, Spent: Spent{WALKB: 2, CPU: CPU{Temporal: 6}}}
	if got[0] != want || got[1].Mode != "b" || got[1].P50 != 3 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if turns := strings.Join(order, ""); turns != "abababab" {
		t.Errorf("measured in the order %s, want in turns", turns)
	}
}
