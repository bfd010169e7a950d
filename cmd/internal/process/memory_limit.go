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

// limitMemory sets a memory limit in Go below the memory limit of the container. The garbage collector then works
// harder before the kernel would kill the process. It does nothing if GOMEMLIMIT is set in the environment.
func limitMemory(env func(string) (string, bool)) {
	if limit := memoryLimit("/sys/fs/cgroup"); limit > 0 && !isSet(env, "GOMEMLIMIT") {
		debug.SetMemoryLimit(limit)
	}
}

// memoryLimit returns the limit for Go, or 0 if the control group at root has no memory limit. The result is nine
// tenths of the control group's limit, minus the request bodies, which are stored outside of Go's memory. It is at
// least half of the control group's limit.
func memoryLimit(root string) int64 {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // the files of cgroup version 2 and 1
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || limit <= 0 || limit > math.MaxInt64/4 { // "max", or the number that version 1 uses for it
			return 0
		}
		return max(limit/10*9-config.BodiesAtOnce, limit/2)
	}
	return 0
}

// headroom is allocated memory that is never used, so the kernel never provides pages for it. It makes Go's garbage
// collector assume a larger heap and therefore run less often. An ingress has about 10 MiB of live data. Without the
// headroom, the collector ran after each further 10 MiB, many times a second under load, and used a sixth of the CPU
// time.
//
// The real memory grows by at most the size of the headroom. GOGC would multiply even a large heap, such as the heap of
// a worker with thousands of open runs. GOMEMLIMIT would make the collector run all the time once the limit is reached.
type headroom []byte

// newHeadroom returns nil if the environment configures the collector itself.
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
