// Package keeper runs a server as a child that cannot outlive its parent: not after Ctrl-C, not after a panic, not
// after kill -9.
//
// A small /bin/sh runs between the two and reads from a pipe that only the parent can write to. The kernel closes the
// pipe when the parent ends for any reason. The shell then asks the server to stop, and kills it if it does not.
// [Process.Stop] works the same way, so every run tests the path that matters after a crash.
//
// It is below schema because both of its users can import it from here: localpg, and the Temporal server of
// cmd/internal/dev. Packages below cmd/internal could not be imported by schema.
package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Command is what to run and how to end it. Path, Log and Signal must be set.
type Command struct {
	Path string
	Args []string
	// Env is the whole environment; nil means the parent's.
	Env []string
	// Dir is a directory that the command has for itself, see [Await]; empty means none.
	Dir string
	// Log is the file of standard output and standard error. The file of the previous run is kept as Log.old: enough to
	// see why a server ended, and bounded.
	Log string
	// Credential is the account to run under; nil means the parent's.
	Credential *syscall.Credential
	// Signal asks the command to stop: "INT" or "TERM". The shell starts the command with INT
	// ignored; a program that does not install its own handler for it (any Go program) needs TERM.
	Signal string
	// Grace is how long the command may take after Signal before it is killed; 0 means [defaultGrace].
	Grace time.Duration
	// RemoveOnDeath is a directory that is removed when the parent dies without Stop; it must
	// belong to Credential. Empty means none.
	RemoveOnDeath string
}

const defaultGrace = 30 * time.Second

// script is the shell between parent and command. Its arguments: signal, grace in seconds,
// directory to remove, then the command. File descriptor 3 is the pipe: a line on it means an
// orderly stop, its end without a line means that the parent died. Files of the command are its account's alone.
const script = `
umask 077
signal=$1 grace=$2 remove=$3
shift 3
"$@" 3<&- &
child=$!
(
	word=
	read -r word <&3
	trap '' TERM
	kill -s "$signal" "$child" 2>/dev/null
	waited=0
	while kill -s 0 "$child" 2>/dev/null; do
		if [ "$waited" -ge "$((grace * 10))" ]; then kill -s KILL "$child" 2>/dev/null; break; fi
		sleep 0.1
		waited=$((waited + 1))
	done
	if [ -z "$word" ] && [ -n "$remove" ]; then rm -rf -- "$remove"; fi
) >/dev/null 2>&1 &
watch=$!
wait "$child"
code=$?
kill -s TERM "$watch" 2>/dev/null
wait "$watch"
exit "$code"
`

// Process is a running command with its keeper.
type Process struct {
	cmd   *exec.Cmd
	log   string
	alive *os.File
	done  chan struct{}
	err   error
}

// Start runs c.
func Start(c Command) (_ *Process, err error) {
	var opened []*os.File // for the command, which has them by the end
	defer func() {
		for _, f := range opened {
			_ = f.Close()
		}
		if err != nil {
			err = fmt.Errorf("start %s: %w", c.Path, err)
		}
	}()
	if err := os.Rename(c.Log, c.Log+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	opened = append(opened, log)
	extra := []*os.File{nil}
	if c.Dir != "" {
		lock, err := lockFree(running(c.Dir))
		if err != nil {
			return nil, err
		}
		opened, extra = append(opened, lock), append(extra, lock)
	}
	watched, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	opened, extra[0] = append(opened, watched), watched
	seconds := max(1, int(cmp.Or(c.Grace, defaultGrace)/time.Second))
	args := []string{"-c", script, "keeper", c.Signal, strconv.Itoa(seconds), c.RemoveOnDeath, c.Path}
	cmd := exec.Command("/bin/sh", append(args, c.Args...)...) //nolint:noctx // it ends with Stop or this process
	cmd.Env, cmd.Dir = c.Env, "/"                              // which every account can enter
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, extra
	// A session of its own: the terminal's Ctrl-C goes to the parent alone, which stops its
	// children in order; kill -9 of the parent's process group does not take the keeper along.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: c.Credential}
	if err := cmd.Start(); err != nil {
		_ = alive.Close()
		return nil, err
	}
	p := &Process{cmd: cmd, log: c.Log, alive: alive, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		_ = alive.Close()
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the command has ended for any reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended returns how the command ended, even with exit status 0. Call it after Done is closed.
func (p *Process) Ended() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Ready returns when is returns nil, which it asks again and again. If the command ends before, or ctx, Ready stops the
// command, and its error has the end of the log.
func (p *Process) Ready(ctx context.Context, is func(context.Context) error) error {
	for {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := is(asking)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.Failed(fmt.Errorf("it ended at once: %w", p.Ended()))
		case <-ctx.Done():
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultGrace)
			defer cancel()
			_ = p.Stop(stopping) // the reason for the failure is worth more
			return p.Failed(errors.Join(ctx.Err(), err))
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// Failed adds the end of the command's log to err.
func (p *Process) Failed(err error) error {
	content, _ := os.ReadFile(p.log)
	return fmt.Errorf("%w: %s (log: %s)", err, LastLines(content, 5), p.log)
}

// PeakMemory returns the most memory in bytes that the command held at one time, after Done is
// closed. It cannot be less than what this process held when it started the command: a child
// begins its life in the memory of its parent.
func (p *Process) PeakMemory() int64 {
	usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss) //nolint:unconvert // in bytes there, in KiB elsewhere
	}
	return int64(usage.Maxrss) << 10 //nolint:unconvert // 32 bits wide on some machines
}

// Stop asks the command to stop and waits until it has. When ctx ends first, the command is
// killed and ctx's error returned. It may be called more than once, and after the command ended.
func (p *Process) Stop(ctx context.Context) error {
	// Both may fail: the command has ended already, or this is the second call.
	_, _ = p.alive.WriteString("stop\n")
	_ = p.alive.Close()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", p.cmd.Path, err)
	}
	<-p.done
	return fmt.Errorf("stop: killed: %w", ctx.Err())
}
