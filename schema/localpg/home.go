package localpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// Files of a state directory, and of a home outside of it.
const (
	passwordFile = "password" // the superuser's password
	homeLink     = "home"     // leads to the home, when it is outside
	stateLink    = "state"    // in an outside home: leads to the state directory that it belongs to
)

// outside is the directory for homes if the server's account cannot reach the state directory. Unlike /tmp, it survives
// a reboot.
const outside = "/var/tmp"

// homePattern names homes outside of a state directory.
const homePattern = "pawl-"

// findHome returns the directory for the data of state directory dir: dir itself or, if acc cannot reach it (for
// example below root's home), a directory in /var/tmp that belongs to acc. A link in dir leads there, so that the next
// start finds it. Deleting dir starts with an empty database.
func findHome(ctx context.Context, dir string, acc account, log *slog.Logger) (string, error) {
	if acc.cred == nil {
		return dir, nil
	}
	removeForsaken(acc, log)
	link := filepath.Join(dir, homeLink)
	if home, err := os.Readlink(link); err == nil {
		if ownedBy(home, acc) {
			return home, nil
		}
		log.Warn("the recorded data directory is gone, beginning with an empty one", "state", dir, "gone", home)
		if err := os.Remove(link); err != nil {
			return "", err
		}
	}
	data := filepath.Join(dir, "data")
	if reachable(ctx, data, acc) {
		return dir, nil
	}
	if version, err := dataVersion(data); err != nil || version != 0 {
		return "", fmt.Errorf("user %s cannot use the data directory %s: let it enter the directories above, or delete %s to begin empty", acc.name, data, dir)
	}
	home, err := makeHome(outside, acc)
	if err != nil {
		return "", err
	}
	log.Info("data directory lies outside of the state directory, which the server's user cannot reach",
		"user", acc.name, "state", dir, "data", home)
	// In this order: a home that leads nowhere is never swept.
	return home, errors.Join(os.Symlink(home, link), os.Symlink(dir, filepath.Join(home, stateLink)))
}

// reachable creates the directory data for acc and reports whether acc can use it. If not, it removes data.
func reachable(ctx context.Context, data string, acc account) bool {
	if err := os.Mkdir(data, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false
	}
	if acc.own(data) == nil && acc.canUse(ctx, data) {
		return true
	}
	_ = os.Remove(data) // only when empty
	return false
}

// makeHome makes a new directory in base that only acc can enter.
func makeHome(base string, acc account) (string, error) {
	home, err := os.MkdirTemp(base, homePattern)
	if err != nil {
		return "", err
	}
	if err := acc.own(home); err != nil {
		_ = os.Remove(home)
		return "", fmt.Errorf("give %s to user %s: %w", home, acc.name, err)
	}
	return home, nil
}

// removeForsaken removes homes with a state directory that is gone or leads to another home.
func removeForsaken(acc account, log *slog.Logger) {
	homes, _ := filepath.Glob(filepath.Join(outside, homePattern+"*"))
	for _, home := range homes {
		dir, err := os.Readlink(filepath.Join(home, stateLink))
		if err != nil || !ownedBy(home, acc) {
			continue
		}
		linked, err := os.Readlink(filepath.Join(dir, homeLink))
		if linked == home || err != nil && !errors.Is(err, fs.ErrNotExist) { // not readable is not gone
			continue
		}
		if err := os.RemoveAll(home); err != nil {
			log.Warn("a data directory without owner cannot be removed", "data", home, "error", err)
		}
	}
}

// ownedBy reports whether path is a directory of acc that no other user can enter. Every user can write to /var/tmp,
// and the directories of other users must be neither trusted nor removed.
func ownedBy(path string, acc account) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == acc.cred.Uid
}

// memory is a file system in memory, and memoryRoom how much of it an ephemeral server has to find free.
const (
	memory     = "/dev/shm"
	memoryRoom = 2 << 30
)

// inMemory reports whether an ephemeral server's data goes to memory: on Linux with room there, unless TMPDIR names
// another place. Tests create and drop hundreds of databases of some 350 files each, which costs a disk's file system
// more CPU than everything else that PostgreSQL does for them.
func inMemory() bool {
	var fs syscall.Statfs_t
	return os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= memoryRoom
}

// ephemeralHome makes a directory for acc in memory or below the temporary directory. If acc can reach neither, it is
// below /var/tmp.
func ephemeralHome(ctx context.Context, acc account) (string, error) {
	bases := []string{os.TempDir(), outside}
	if inMemory() {
		bases = append([]string{memory}, bases...)
	}
	for _, base := range bases {
		home, err := makeHome(base, acc)
		if err != nil {
			continue
		}
		if acc.canUse(ctx, home) {
			return home, nil
		}
		_ = os.Remove(home)
	}
	return "", fmt.Errorf("neither %s nor %s can be used by user %q", os.TempDir(), outside, acc.name)
}

// loadPassword reads the password, or makes one: 26 letters of 128 random bits.
func loadPassword(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err == nil {
		return string(content), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	password := rand.Text()
	return password, os.WriteFile(path, []byte(password), 0o600)
}
