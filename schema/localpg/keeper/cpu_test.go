package keeper_test

import (
	"runtime"
	"testing"
	"time"
)

// The CPU time includes ended children and running children.
func TestCPU_WithDescendants(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	p, _ := run(t, `sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; echo ready; sleep 60`, 0)
	first, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	if first < 10*time.Millisecond || first > time.Minute {
		t.Errorf("CPU() = %s, want some of it", first)
	}
	if again, err := p.CPU(); err != nil || again < first {
		t.Errorf("CPU() = %s, then %s, %v; it never gets less", first, again, err)
	}
}
