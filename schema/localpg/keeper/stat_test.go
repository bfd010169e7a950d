package keeper

import (
	"os"
	"testing"
)

func TestParseStat_NameWithParentheses(t *testing.T) {
	t.Parallel()
	line := "12 (a) b (c) S 7 1 1 0 -1 4194560 1 2 3 4 100 20 3 1 20 0 1 0 5\n"
	pid, parent, cpu, err := parseStat([]byte(line))
	if err != nil || pid != 12 || parent != 7 || cpu != 124*tick {
		t.Errorf("got %d, %d, %s, %v; want 12, 7, %s", pid, parent, cpu, err, 124*tick)
	}
	if self, err := os.ReadFile("/proc/self/stat"); err == nil {
		if pid, _, _, err := parseStat(self); err != nil || pid != os.Getpid() {
			t.Errorf("our own: %d, %v", pid, err)
		}
	}
}
