package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// orphanGrace is how long a server that was found running may take to stop.
const orphanGrace = 30 * time.Second

// stopOrphan makes the data directory free: it stops a postmaster that still runs on it, and
// removes a pid file whose process has become somebody else's. The caller holds the state
// directory's lock, so a postmaster found here has lost its parent.
//
// A pid file of a dead process stays: postgres reads from it whether old backends still hold
// the shared memory, and refuses to start beside them.
func stopOrphan(ctx context.Context, data string) error {
	pid := postmasterPID(data)
	if pid == 0 {
		return nil
	}
	if isPostmaster(pid, data) {
		if err := stopPostmaster(ctx, pid, data); err != nil {
			return fmt.Errorf("stop the server that a crash left on %s (process %d): %w", data, pid, err)
		}
		return nil
	}
	if syscall.Kill(pid, 0) == nil {
		return os.Remove(filepath.Join(data, "postmaster.pid"))
	}
	return nil
}

// stopPostmaster asks for a fast shutdown and waits until the process has ended. It may be on its way down
// already, since its keeper asks the same of it: then neither pid file nor process need be there any more,
// which pg_ctl calls an error.
func stopPostmaster(ctx context.Context, pid int, data string) error {
	ctx, cancel := context.WithTimeout(ctx, orphanGrace)
	defer cancel()
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	for isPostmaster(pid, data) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("it has not ended: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond): // it is no child of ours, whose end could be awaited
		}
	}
	return nil
}

// postmasterPID returns the process that the pid file in data names, 0 for none.
func postmasterPID(data string) int {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}

// isPostmaster reports whether pid runs on the data directory data. A postmaster's working
// directory is its data directory; without /proc its command line must name it.
func isPostmaster(pid int, data string) bool {
	if pid == 0 {
		return false
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil {
		real, err := filepath.EvalSymlinks(data)
		return err == nil && cwd == real
	}
	//nolint:noctx // it takes a moment
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), data)
}
