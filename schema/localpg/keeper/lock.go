package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// errLocked is returned if another process holds a lock.
var errLocked = errors.New("locked by another process")

// tryLock takes the lock file at path, which is made when it does not exist. Closing the file
// gives the lock back, and so does the kernel when this process ends; processes that it starts
// do not hold it, unless the file is passed on to them.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// Lock waits for the lock file at path until ctx ends. Closing the file gives it back.
func Lock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(50 * time.Millisecond): // flock has no wait that a context could end
		}
	}
}

// forkPatience is how long a lock is tried that no other process should hold. A child process holds the locks of its
// parent from the fork until it executes its program.
const forkPatience = 3 * time.Second

// lockFree takes a lock that no other process should hold.
func lockFree(path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), forkPatience)
	defer cancel()
	return Lock(ctx, path)
}

// Claim locks the state directory dir for this process, until the file is closed or the process ends. If another
// process has the lock, the error is one sentence for the user.
func Claim(dir string) (*os.File, error) {
	f, err := lockFree(filepath.Join(dir, "lock"))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("%s is in use by another running pawl: stop it, or use another state directory", dir)
	}
	return f, err
}

// running is locked in a command's Dir by its keeper, the command and what that has started.
func running(dir string) string { return filepath.Join(dir, "running") }

// awaitPatience is the grace of a stopping command, and some more.
const awaitPatience = defaultGrace + 5*time.Second

// Await returns when no command runs with this Dir. A command is still stopping after its parent was killed. The caller
// must hold the lock of the directory, so that no other process starts a command.
func Await(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, awaitPatience)
	defer cancel()
	f, err := Lock(ctx, running(dir))
	if errors.Is(err, fs.ErrNotExist) { // nor is there a directory
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for the server of the run before to end: %w", err)
	}
	return f.Close()
}
