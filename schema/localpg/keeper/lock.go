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

// tryLock locks the file at path, and creates it if it does not exist. The lock is released when the file is closed or
// this process ends. Child processes do not hold the lock, unless they inherit the file.
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

// Lock waits for the lock file at path until ctx ends. Closing the file releases the lock.
func Lock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(50 * time.Millisecond): // flock cannot be cancelled by a context
		}
	}
}

// forkPatience is how long lockFree retries. A child process also holds the locks of its parent, from the fork until it
// executes its program.
const forkPatience = 3 * time.Second

// lockFree locks a file that no other process should hold.
func lockFree(path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), forkPatience)
	defer cancel()
	return Lock(ctx, path)
}

// Claim locks the state directory dir for this process. The lock lasts until the file is closed or the process ends. If
// another process has the lock, Claim returns an error that can be shown to the user.
func Claim(dir string) (*os.File, error) {
	f, err := lockFree(filepath.Join(dir, "lock"))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("%s is in use by another running pawl: stop it, or use another state directory", dir)
	}
	return f, err
}

// running returns the path of the lock file in a command's Dir. The shell, the command and its children hold this lock.
func running(dir string) string { return filepath.Join(dir, "running") }

// awaitPatience is longer than the grace period of a command that is stopping.
const awaitPatience = defaultGrace + 5*time.Second

// Await waits until no command with this Dir runs any more. After a parent was killed, its command may still be
// stopping. The caller must hold the lock of the directory, so that no other process starts a command.
func Await(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, awaitPatience)
	defer cancel()
	f, err := Lock(ctx, running(dir))
	if errors.Is(err, fs.ErrNotExist) { // the directory does not exist either
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait until the server of the previous run has ended: %w", err)
	}
	return f.Close()
}
