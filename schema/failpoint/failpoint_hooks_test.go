//go:build pawlhooks

package failpoint_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/schema/failpoint"
)

// TestMain runs the process that is killed.
func TestMain(m *testing.M) {
	if os.Getenv("FAILPOINT_VICTIM") == "" {
		os.Exit(m.Run())
	}
	for range 3 {
		fmt.Print("step ")
		failpoint.Hit("elsewhere")
		failpoint.Hit("here")
	}
}

func TestHit_Exit_DiesAtTheNthHit(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]int{"here:exit:2": 2, "here:exit:4": 3, "": 3, "other:exit:1,here:exit:1": 1} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FAILPOINT_VICTIM=1", "PAWL_FAIL="+env)
		out, err := cmd.Output()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if steps := strings.Count(string(out), "step"); steps != want || killed != (want < 3) {
			t.Errorf("PAWL_FAIL=%q: %d steps, killed %t (%v); want %d steps", env, steps, killed, err, want)
		}
	}
}

func TestHit_Malformed_Panics(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FAILPOINT_VICTIM=1", "PAWL_FAIL=here:explode:1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "PAWL_FAIL") {
		t.Errorf("a malformed hook went unnoticed: %v %s", err, out)
	}
}
