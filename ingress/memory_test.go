package ingress_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/pawlhq/pawl/ingress"
)

const mib = 1 << 20

// The server's memory for bodies is close to the memory that it counts: three unsigned bodies that stall after 20 MB
// each fill the budget of 60 MiB for large bodies.
//
// The test is not parallel, because it measures the memory of its process.
func TestBody_Stalled_TakesWhatIsCounted(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	b := setup(t, func(c *ingress.Config, s *ingress.Source) {
		c.Limits.Read, c.Limits.Total = time.Minute, 2*time.Minute
		c.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("")
		s.BodyLimit = 25 * mib
	})
	const bodies, size = 3, 20_000_000
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	debug.FreeOSMemory() // otherwise the memory of earlier tests is released during the measurement
	before, most := resident(t), 0
	for i := range bodies {
		conn := b.dialFrom(t, fmt.Sprintf("127.0.0.%d", 2+i), "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: 00\r\nContent-Length: 24000000\r\n\r\n")
		go func() {
			for sent := 0; sent < size; sent += len(chunk) {
				_, _ = conn.Write(chunk) // if a write fails, the test fails later because the memory is missing
			}
		}()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		most = max(most, resident(t)-before)
		held := measured(t, reader, "pawl_bodies_bytes", "")
		if held >= bodies*size {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d MiB are held: nothing is measured", held/mib)
		}
	}
	t.Logf("%d MiB for bodies of %d MiB", most/mib, int(bodies*size)/mib)
	if most > 110*mib {
		t.Errorf("bodies of %d MiB take %d MiB", int(bodies*size)/mib, most/mib)
	}
}

var anonymous = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// resident returns the resident memory of this process in bytes, without shared memory.
func resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skipf("this system does not tell the memory of a process: %v", err)
	}
	found := anonymous.FindSubmatch(status)
	if found == nil {
		t.Skip("this system does not tell the memory of a process")
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
