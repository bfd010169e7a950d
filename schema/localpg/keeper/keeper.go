// Package keeper runs a server as a child that cannot outlive its parent: not after Ctrl-C, not after a panic, not
// after kill -9.
//
// A small /bin/sh runs between parent and server and reads from a pipe. Only the parent can write to the pipe, and the
// kernel closes it when the parent ends for any reason. The shell then sends the stop signal to the server, and kills
// the server after the grace period. [Process.Stop] uses the same mechanism, so every ordinary run also tests what
// happens after a crash.
//
// The package is below schema because localpg imports it, and packages of schema must not import packages of
// cmd/internal. Its other user is the Temporal server in cmd/internal/dev.
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

// Command describes a process and how to stop it. Path, Log and Signal must be set.
type Command struct {
	Path string
	Args []string
	// Env is the complete environment of the command; nil means the environment of the parent.
	Env []string
	// Dir is a directory that only this command uses; see [Await]. "" means no directory.
	Dir string
	// Log is the file for standard output and standard error. The file of the previous run is kept as Log.old, so that
	// the log stays small and still shows why the previous server ended.
	Log string
	// Credential is the account that runs the command; nil means the account of the parent.
	Credential *syscall.Credential
	// Signal is the signal that stops the command: "INT" or "TERM". The shell starts the command with INT ignored. A
	// program that does not handle INT itself needs TERM. Every Go program needs TERM.
	Signal string
	// Grace is how long the command may take to stop after Signal before it is killed; 0 means [defaultGrace].
	Grace time.Duration
	// RemoveOnDeath is a directory that is removed if the parent dies without calling Stop. It must belong to
	// Credential. "" means no directory.
	RemoveOnDeath string
}

const defaultGrace = 30 * time.Second

// script is the shell script that runs between parent and command. Its arguments are the signal, the grace period in
// seconds, the directory to remove, and the command. File descriptor 3 is the pipe. A line in the pipe means an orderly
// stop. The end of the pipe without a line means that the parent died. A umask makes the command's files readable for
// its account only.
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

// Process is a running command together with its shell.
type Process struct {
	cmd   *exec.Cmd
	log   string
	alive *os.File
	done  chan struct{}
	err   error
}

// Start runs c.
func Start(c Command) (_ *Process, err error) {
	var opened []*os.File // the command has its own copies after its start
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
	cmd.Env, cmd.Dir = c.Env, "/"                              // a directory that every account can enter
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, extra
	// The command gets its own session. Ctrl-C in the terminal then reaches only the parent, which stops its children
	// in order. A kill -9 of the parent's process group does not kill the shell.
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

// Ended returns an error that describes how the command ended, even if its exit status is 0. Call it after Done is
// closed.
func (p *Process) Ended() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Ready calls the function is repeatedly until it returns nil. If the command or ctx ends first, Ready stops the
// command and returns an error with the end of the log.
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
			_ = p.Stop(stopping) // the error that made Ready fail matters more
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

// PeakMemory returns the peak memory of the command in bytes. Call it after Done is closed. The result is at least the
// memory that this process had when it started the command, because a child starts with a copy of its parent's memory.
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

// Stop sends the stop signal to the command and waits for its end. If ctx ends first, Stop kills the command and
// returns ctx's error. It may be called more than once, and after the command has ended.
func (p *Process) Stop(ctx context.Context) error {
	// Both calls fail if the command has ended or if Stop was called before.
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
