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
// kernel would end it. A GOMEMLIMIT in the environment holds.
func limitMemory(env func(string) (string, bool)) {
	if limit := memoryLimit("/sys/fs/cgroup"); limit > 0 && !isSet(env, "GOMEMLIMIT") {
		debug.SetMemoryLimit(limit)
	}
}

// memoryLimit returns what Go may take in the container whose control group is at root, 0 without a limit: nine
// tenths of the limit less the bodies, which are outside of Go's memory, but never less than half of it.
func memoryLimit(root string) int64 {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // of version 2 and 1
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

// headroom is memory that is never touched, so that the kernel never gives it: it only makes Go's collector count
// with a larger heap. An ingress has some 10 MiB of live data, and the collector ran whenever as much again had been
// allocated: many times a second under load, for a sixth of the process's CPU time. It costs at most as much real
// memory as it pretends. Unlike GOGC it does not multiply a heap that is large already, as that of a worker with
// thousands of open runs, and unlike GOMEMLIMIT it sets no bound to thrash at.
type headroom []byte

// newHeadroom returns none where the environment tunes the collector itself.
func newHeadroom(env func(string) (string, bool)) headroom {
	if isSet(env, "GOGC") || isSet(env, "GOMEMLIMIT") {
		return nil
	}
	return make(headroom, 24<<20)
}

// isSet reports whether the environment has something to say about name.
func isSet(env func(string) (string, bool), name string) bool {
	value, ok := env(name)
	return ok && value != ""
}
