package process

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// limitMemory makes Go's collector work harder before the process reaches the memory limit of its container, where the
// kernel would kill it. A GOMEMLIMIT in the environment takes precedence.
func limitMemory(env func(string) (string, bool)) {
	if limit := memoryLimit("/sys/fs/cgroup"); limit > 0 && !isSet(env, "GOMEMLIMIT") {
		debug.SetMemoryLimit(limit)
	}
}

// memoryLimit returns Go's share of the memory limit in the control group at root, or 0 without a limit: nine tenths of
// the limit minus the bodies, which are outside of Go's memory, but at least half of it.
func memoryLimit(root string) int64 {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // cgroup version 2 and 1
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || limit <= 0 || limit > math.MaxInt64/4 { // "max", or version 1's number for it
			return 0
		}
		return max(limit/10*9-config.BodiesAtOnce, limit/2)
	}
	return 0
}

// headroom is memory that is never touched, so that the kernel never provides it. It only makes Go's collector assume a
// larger heap. An ingress has about 10 MiB of live data, and the collector ran each time that as much had been
// allocated: many times a second under load, for a sixth of the process's CPU time. It costs at most its size in real
// memory. Unlike GOGC, it does not multiply a heap that is already large, such as the heap of a worker with thousands
// of open runs. Unlike GOMEMLIMIT, it has no limit at which the collector runs all the time.
type headroom []byte

// newHeadroom returns nil if the environment tunes the collector itself.
func newHeadroom(env func(string) (string, bool)) headroom {
	if isSet(env, "GOGC") || isSet(env, "GOMEMLIMIT") {
		return nil
	}
	return make(headroom, 24<<20)
}

// isSet reports whether the environment sets name.
func isSet(env func(string) (string, bool), name string) bool {
	value, ok := env(name)
	return ok && value != ""
}
