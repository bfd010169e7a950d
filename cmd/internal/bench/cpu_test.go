package bench

import "testing"

func TestCPU_SinceAndMedian(t *testing.T) {
	t.Parallel()
	spent := CPU{Pawl: 9, Postgres: 5, Sandbox: 2}.since(CPU{Pawl: 4, Postgres: 5, Sandbox: 1})
	if want := (CPU{Pawl: 5, Sandbox: 1}); spent != want {
		t.Errorf("since: %+v, want %+v", spent, want)
	}
	got := cpuMedian([]FlowResult{{CPU: CPU{Pawl: 1, Temporal: 8}}, {CPU: CPU{Pawl: 3, Temporal: 6}}, {CPU: spent}})
	if want := (CPU{Pawl: 3, Temporal: 6}); got != want {
		t.Errorf("median: %+v, want %+v", got, want)
	}
}
