package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/schema/schematest"
)

// shared is the state that all tests of this process share.
var shared struct {
	dir    string // every user can enter it: one test runs pawl as another user
	binary string // the pawl binary, with the failure hooks that the build tag pawlhooks adds

	once     sync.Once
	temporal *dev.Temporal
	client   client.Client
	err      error
}

func TestMain(m *testing.M) {
	schematest.AtOnce(8)
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(shared.dir) }()
	code := schematest.Run(m)
	if err := stopTemporal(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return code
}

// build builds pawl once, in its shipped form plus the failure hooks.
func build() (err error) {
	if shared.dir, err = os.MkdirTemp("", "pawl-e2e-"); err != nil {
		return err
	}
	if err := os.Chmod(shared.dir, 0o755); err != nil {
		return err
	}
	shared.binary = filepath.Join(shared.dir, "pawl")
	out, err := exec.Command("go", "build", "-tags", "pawlhooks", "-o", shared.binary, "github.com/pawlhq/pawl/cmd/pawl").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build pawl: %w\n%s", err, out)
	}
	return nil
}

// temporal returns the Temporal server that all tests share, and a client of it.
func temporal(t *testing.T) (*dev.Temporal, client.Client) {
	t.Helper()
	shared.once.Do(func() {
		if shared.err = startTemporal(portOf(t, schematest.FreeAddr(t))); shared.err == nil {
			shared.client, shared.err = client.NewLazyClient(client.Options{HostPort: shared.temporal.Addr(), Logger: silent{}})
		}
	})
	if shared.err != nil {
		t.Fatalf("start Temporal: %v", shared.err)
	}
	return shared.temporal, shared.client
}

// startTemporal starts the server on the port, with the state of the previous server.
func startTemporal(port int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the first start builds the server
	defer cancel()
	shared.temporal, err = dev.StartTemporal(ctx, dev.TemporalOptions{
		Dir: filepath.Join(shared.dir, "temporal"), Port: port, Sync: dev.SyncNever, Progress: os.Stderr,
	})
	return err
}

func stopTemporal() error {
	if shared.temporal == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return shared.temporal.Stop(ctx)
}

// showTemporal logs the last lines of the server, which explain why a start fails although no test has stopped the
// server.
func showTemporal(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(shared.dir, "temporal", "temporal.log"))
	if err != nil {
		t.Logf("Temporal: %v", err)
		return
	}
	t.Logf("Temporal logged lately:\n%s", content[max(0, len(content)-8<<10):])
}

// silent is a logger that discards the messages of the Temporal SDK, because outages are intended.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
