package keeper

import (
	"os"
	"testing"
)

func TestParseStat_NameWithParentheses(t *testing.T) {
	t.Parallel()
	line := "12 (a) b (c) S 7 1 1 0 -1 4194560 1 2 3 4 100 20 3 1 20 0 1 0 5\n"
	parent, cpu, err := parseStat(line)
	if err != nil || parent != 7 || cpu != 124*tick {
		t.Errorf("got %d, %s, %v; want 7, %s", parent, cpu, err, 124*tick)
	}
	if self, err := os.ReadFile("/proc/self/stat"); err == nil {
		if parent, _, err := parseStat(string(self)); err != nil || parent != os.Getppid() {
			t.Errorf("our own: %d, %v", parent, err)
		}
	}
}
