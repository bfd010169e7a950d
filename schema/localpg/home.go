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

// Names of files in a state directory, and in a home outside of it.
const (
	passwordFile = "password" // the superuser's password
	homeLink     = "home"     // a link to the home, if the home is outside
	stateLink    = "state"    // in a home outside: a link back to its state directory
)

// outside is the directory for homes if the server's account cannot reach the state directory. Unlike /tmp, it survives
// a reboot.
const outside = "/var/tmp"

// homePattern is the prefix of the names of homes outside of a state directory.
const homePattern = "pawl-"

// findHome returns the directory for the data that belongs to the state directory dir. It returns dir itself, or a
// directory in /var/tmp if acc cannot reach dir, for example below root's home. If the home is in /var/tmp, dir
// contains a link to the home, so that the next start finds it. If dir is deleted, the next start creates an empty
// database.
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
		log.Warn("the recorded data directory does not exist any more; a new, empty one is created", "state", dir, "gone", home)
		if err := os.Remove(link); err != nil {
			return "", err
		}
	}
	data := filepath.Join(dir, "data")
	if reachable(ctx, data, acc) {
		return dir, nil
	}
	if version, err := dataVersion(data); err != nil || version != 0 {
		return "", fmt.Errorf("user %s cannot use the data directory %s: give the user access to the parent directories, or delete %s to start with an empty database", acc.name, data, dir)
	}
	home, err := makeHome(outside, acc)
	if err != nil {
		return "", err
	}
	log.Info("the data directory is outside of the state directory, because the server's user cannot reach the state directory",
		"user", acc.name, "state", dir, "data", home)
	// Create the links in this order, because a home without a link to a state directory is never removed.
	return home, errors.Join(os.Symlink(home, link), os.Symlink(dir, filepath.Join(home, stateLink)))
}

// reachable creates the directory data for acc and reports whether acc can use it. If acc cannot use it, reachable
// removes it.
func reachable(ctx context.Context, data string, acc account) bool {
	if err := os.Mkdir(data, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false
	}
	if acc.own(data) == nil && acc.canUse(ctx, data) {
		return true
	}
	_ = os.Remove(data) // fails unless the directory is empty
	return false
}

// makeHome creates a new directory in base that only acc can enter.
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

// removeForsaken removes homes if their state directory was deleted or links to another home.
func removeForsaken(acc account, log *slog.Logger) {
	homes, _ := filepath.Glob(filepath.Join(outside, homePattern+"*"))
	for _, home := range homes {
		dir, err := os.Readlink(filepath.Join(home, stateLink))
		if err != nil || !ownedBy(home, acc) {
			continue
		}
		linked, err := os.Readlink(filepath.Join(dir, homeLink))
		// a link that cannot be read does not prove that the directory is deleted
		if linked == home || err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.RemoveAll(home); err != nil {
			log.Warn("a data directory without a state directory cannot be removed", "data", home, "error", err)
		}
	}
}

// ownedBy reports whether path is a directory of acc that no other user can enter. Every user can write to /var/tmp.
// The directories of other users must neither be trusted nor removed.
func ownedBy(path string, acc account) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == acc.cred.Uid
}

// memory is a file system that is kept in memory. memoryRoom is the free space that an ephemeral server needs there.
const (
	memory     = "/dev/shm"
	memoryRoom = 2 << 30
)

// inMemory reports whether the data of an ephemeral server is kept in memory. It returns true on Linux if there is
// enough free space and TMPDIR does not name another directory. Tests create and drop hundreds of databases of about
// 350 files each. On a disk, the file system would need more CPU for them than PostgreSQL does for everything else.
func inMemory() bool {
	var fs syscall.Statfs_t
	return os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= memoryRoom
}

// ephemeralHome creates a directory for acc in memory or in the temporary directory, or in /var/tmp if acc can enter
// neither.
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

// loadPassword reads the password file, or creates one with 128 random bits as 26 letters.
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
