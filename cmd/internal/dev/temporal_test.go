package dev_test

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/dev"
)

// parentEnv names a directory. If it is set, the test binary starts Temporal in this directory, prints its address,
// and waits to be killed.
const parentEnv = "PAWL_DEVSTACK_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		server, err := dev.StartTemporal(context.Background(), dev.TemporalOptions{Dir: dir, Progress: os.Stderr})
		if err != nil {
			panic(err)
		}
		if _, err := os.Stdout.WriteString(server.Addr() + "\n"); err != nil {
			panic(err)
		}
		select {}
	}
	os.Exit(m.Run())
}

func start(t *testing.T, opts dev.TemporalOptions) *dev.Temporal {
	t.Helper()
	opts.Progress = os.Stderr
	server, err := dev.StartTemporal(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, server) })
	return server
}

func stop(t *testing.T, server *dev.Temporal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

func dial(t *testing.T, server *dev.Temporal) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: server.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestStartTemporal_RestartFindsWorkflowsAndAttributes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // the file mode that earlier versions set
		t.Fatal(err)
	}
	opts := dev.TemporalOptions{Dir: dir, SearchAttributes: map[string]string{"PawlProvider": "Keyword"}}
	first := start(t, opts)
	run, err := dial(t, first).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "kept", TaskQueue: "nobody"}, "Flow")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "temporal.db": 0o600, "temporal.log": 0o600} {
		info, err := os.Stat(filepath.Join(opts.Dir, name))
		if err != nil {
			t.Error(err)
		} else if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %q is %o, want %o: other users must not read histories", info.Name(), got, want)
		}
	}
	stop(t, first)

	second := start(t, opts) // this time with the attribute registered
	c := dial(t, second)
	got, err := c.DescribeWorkflow(t.Context(), "kept", "")
	if err != nil {
		t.Fatalf("after a restart: %v", err)
	}
	if id := got.WorkflowExecution.RunID; id != run.GetRunID() {
		t.Errorf("run = %s; want %s", id, run.GetRunID())
	}
	attributes, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := attributes.GetCustomAttributes()["PawlProvider"]; !ok {
		t.Errorf("search attributes = %v; want PawlProvider", attributes.GetCustomAttributes())
	}
}

func TestStartTemporal_ParentKilled_SuccessorStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the parent printed no address: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()

	addr := strings.TrimSpace(line)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	// The same port is available only after the old server has stopped.
	successor := start(t, dev.TemporalOptions{Dir: dir, Port: number})
	if _, err := dial(t, successor).WorkflowService().GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{}); err != nil {
		t.Error(err)
	}
}

func TestStartTemporal_DirInUse_OneClearSentence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, dev.TemporalOptions{Dir: dir})
	_, err := dev.StartTemporal(t.Context(), dev.TemporalOptions{Dir: dir, Progress: os.Stderr})
	if err == nil || !strings.Contains(err.Error(), dir+" is in use by another running pawl") {
		t.Errorf("StartTemporal() = %v; want the directory and that it is in use", err)
	}
}

func TestStartTemporal_PortTaken_NamesTheFlag(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	for flag, opts := range map[string]dev.TemporalOptions{
		"--temporal-port":    {Dir: t.TempDir(), Port: port, Progress: os.Stderr},
		"--temporal-ui-port": {Dir: t.TempDir(), UIPort: port, Progress: os.Stderr},
	} {
		_, err := dev.StartTemporal(t.Context(), opts)
		want := "port " + strconv.Itoa(port) + " is taken (flag " + flag + ")"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("StartTemporal() = %v; want %q", err, want)
		}
	}
}

func TestCheckPort(t *testing.T) {
	t.Parallel()
	if err := dev.CheckPort("--ingress", "127.0.0.1:0"); err != nil {
		t.Errorf("CheckPort() = %v for a free port", err)
	}
	for _, addr := range []string{"8080", "127.0.0.1:99999"} {
		err := dev.CheckPort("--ingress", addr)
		if err == nil || !strings.Contains(err.Error(), "--ingress") {
			t.Errorf("CheckPort(%q) = %v; want an error that names the flag", addr, err)
		}
	}
}

// The server chooses some ports itself, and another process may use them when the server listens.
func TestStartTemporal_OwnPortTakenMeanwhile_TriedAgain(t *testing.T) {
	path, err := dev.FindTemporal(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	bin, tried := t.TempDir(), filepath.Join(t.TempDir(), "tried")
	script := "#!/bin/sh\nif [ ! -e '" + tried + "' ]; then : > '" + tried + "'; echo 'bind: address already in use'; exit 1; fi\nexec '" + path + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "temporal"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	start(t, dev.TemporalOptions{Dir: t.TempDir()})
	if _, err := os.Stat(tried); err != nil {
		t.Errorf("the first try did not fail: %v", err)
	}
}

// The first program named temporal on PATH is used, even if it is not a server and exits with code 0.
func TestStartTemporal_EndsAtOnceWithoutError_SaysSo(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "temporal"), []byte("#!/bin/sh\necho bye\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	_, err := dev.StartTemporal(t.Context(), dev.TemporalOptions{Dir: t.TempDir(), Progress: os.Stderr})
	if err == nil || !strings.Contains(err.Error(), "it ended at once: exit status 0: bye") {
		t.Errorf("StartTemporal() = %v, want how it ended", err)
	}
}
