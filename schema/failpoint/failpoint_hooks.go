//go:build pawlhooks

// Package failpoint marks places where a test can kill or stall the process; see the documentation of the ordinary
// build.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled reports whether the build has failure hooks.
const Enabled = true

type point struct {
	action string
	nth    int
	hits   int
}

var (
	mu     sync.Mutex
	points = parse(os.Getenv("PAWL_FAIL"))
)

// parse panics on a malformed value. Otherwise the hook would never fire, and a kill test would pass without testing
// anything.
func parse(env string) map[string]*point {
	points := map[string]*point{}
	for spec := range strings.SplitSeq(env, ",") {
		if spec == "" {
			continue
		}
		parts := strings.Split(spec, ":")
		if len(parts) != 3 || parts[1] != "exit" && parts[1] != "stop" {
			panic(fmt.Sprintf("PAWL_FAIL: %q is not name:exit|stop:nth", spec))
		}
		nth, err := strconv.Atoi(parts[2])
		if err != nil || nth < 1 {
			panic(fmt.Sprintf("PAWL_FAIL: %q: nth counts from 1", spec))
		}
		points[parts[0]] = &point{action: parts[1], nth: nth}
	}
	return points
}

// Hit performs the action that PAWL_FAIL sets for name.
func Hit(name string) {
	mu.Lock()
	p, ok := points[name]
	if ok {
		p.hits++
		ok = p.hits == p.nth
	}
	mu.Unlock()
	if !ok {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint %s: %s\n", name, p.action)
	if p.action == "stop" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // another thread receives the signal
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // wait until the signal takes effect; no code may run after this point
}
