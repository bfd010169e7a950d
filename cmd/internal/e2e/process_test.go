package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a running pawl.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	stdout output
	stderr output
	done   chan struct{} // closed when the process has ended
}

// startPawl starts the pawl binary like startProgram.
func startPawl(t *testing.T, name string, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	return startProgram(t, shared.binary, name, prepare, args...)
}

// startProgram starts the program at path. If the program still runs when the test ends, the test kills it. If the
// test has failed, it prints the program's log.
func startProgram(t *testing.T, path, name string, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, done: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	// A descendant that keeps a pipe open must not block Wait.
	p.cmd.WaitDelay = time.Second
	if prepare != nil {
		prepare(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState contains the result
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s (pid %d) printed:\n%s%s", name, p.cmd.Process.Pid, p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

// kill sends SIGKILL and returns when the process is gone.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatalf("kill %s: %v", p.name, err)
	}
	<-p.done
}

// terminate sends SIGTERM.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("stop %s: %v", p.name, err)
	}
}

// exit waits for the process to end and returns its exit code, or -1 if it was killed.
func (p *process) exit(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("%s still runs after %s", p.name, within)
		return 0
	}
}

// awaitHook waits until the process kills itself at a failure hook, and checks that it was the expected hook.
func (p *process) awaitHook(point string) {
	p.t.Helper()
	if code := p.exit(patience); code != -1 || !strings.Contains(p.stderr.String(), "failpoint "+point+": exit") {
		p.t.Fatalf("%s ended with code %d; want a kill at %s", p.name, code, point)
	}
}

// logged returns the log entries with the given message.
func (p *process) logged(message string) (entries []map[string]any) {
	for line := range strings.Lines(p.stderr.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == message {
			entries = append(entries, entry)
		}
	}
	return entries
}

// awaitLog waits for a message in the log and returns its attributes.
func (p *process) awaitLog(message string) map[string]any {
	p.t.Helper()
	var found map[string]any
	await(p.t, patience, func() error {
		if entries := p.logged(message); len(entries) > 0 {
			found = entries[0]
			return nil
		}
		select {
		case <-p.done:
			return fatal(fmt.Errorf("%s ended (%s) before it logged %q:\n%s", p.name, p.cmd.ProcessState, message, p.stderr.String()))
		default:
			return fmt.Errorf("%s has not logged %q", p.name, message)
		}
	})
	return found
}

// output collects the output of a process. It may be read while the process runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// fatal marks an error after which the condition can no longer become true.
func fatal(err error) error { return &hopeless{err} }

type hopeless struct{ error }

// await calls condition with increasing delays until it returns nil. After the timeout it fails the test with the last
// error.
func await(t *testing.T, within time.Duration, condition func() error) {
	t.Helper()
	begun, deadline := time.Now(), time.After(within)
	for {
		asked := time.Now()
		err := condition()
		if err == nil {
			return
		}
		if end := (*hopeless)(nil); errors.As(err, &end) {
			t.Fatal(err)
		}
		select {
		case <-time.After(max(25*time.Millisecond, time.Since(asked), min(time.Since(begun)/20, 250*time.Millisecond))):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-deadline:
			t.Fatalf("after %s: %v", within, err)
		}
	}
}
