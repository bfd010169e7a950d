// Package users reads and writes the file of the people who sign in to the console with a password.
package users

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// LeastPassword is the minimum length of a password in characters.
const LeastPassword = 12

// File is a file of people with passwords. Each line is NAME:ROLE,ROLE:HASH with an argon2id hash. A changed file is
// read again, so that a removed person has no access from the next request on.
type File struct {
	path string

	mu     sync.Mutex
	read   time.Time // the modification time of the file at the last read
	size   int64
	people map[string]User
	// decoy is a hash that is compared if the name is unknown, so that known and unknown names take the same time.
	decoy string
}

// User is a person of the file.
type User struct {
	decide.Person
	hash string
}

// Credential returns a fingerprint of the password hash. The fingerprint changes whenever a password is set, even to
// the same password, because each hash has its own salt.
func (u *User) Credential() string {
	sum := sha256.Sum256([]byte(u.hash))
	return hex.EncodeToString(sum[:16])
}

// New returns the file with a path. The file may be missing. An empty path means no users.
func New(path string) *File { return &File{path: path} }

// load reads the file if it has changed.
func (f *File) load() error {
	if f.path == "" {
		return nil
	}
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.people, f.read, f.size = nil, time.Time{}, 0
		return nil
	}
	if err != nil {
		return fmt.Errorf("read console.users: %w", err)
	}
	if info.ModTime().Equal(f.read) && info.Size() == f.size {
		return nil
	}
	content, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("read console.users: %w", err)
	}
	people := map[string]User{}
	n := 0
	for line := range bytes.Lines(content) {
		n++
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		one, err := parseUser(text)
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", f.path, n, err)
		}
		people[one.Name] = one
	}
	f.people, f.read, f.size = people, info.ModTime(), info.Size()
	return nil
}

func parseUser(line string) (one User, err error) {
	parts := strings.Split(line, ":")
	if len(parts) != 3 {
		return one, errors.New("write NAME:ROLE,ROLE:HASH, as pawl console adduser does")
	}
	one.Name, one.hash = parts[0], parts[2]
	one.Identity = decide.Identity{Issuer: decide.IssuerLocal, Subject: one.Name}
	if err := decide.CheckName(one.Name); err != nil {
		return one, err
	}
	if _, _, _, err := argon2id.DecodeHash(one.hash); err != nil {
		return one, fmt.Errorf("the hash of %s is not argon2id's: %w", one.Name, err)
	}
	for name := range strings.SplitSeq(parts[1], ",") {
		role, err := role.Parse(strings.TrimSpace(name))
		if err != nil {
			return one, err
		}
		one.Roles = append(one.Roles, role)
	}
	return one, nil
}

// Check returns the user with a name and password. It returns nil if the name or the password is wrong. Both cases take
// the time of computing a hash.
func (f *File) Check(name, password string) (*User, error) {
	f.mu.Lock()
	if err := f.load(); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	found, known := f.people[name]
	if f.decoy == "" {
		hash, err := argon2id.CreateHash("decoy", argon2id.DefaultParams)
		if err != nil {
			f.mu.Unlock()
			return nil, fmt.Errorf("hash: %w", err)
		}
		f.decoy = hash
	}
	hash := f.decoy
	f.mu.Unlock()
	if known {
		hash = found.hash
	}
	match, err := argon2id.ComparePasswordAndHash(password, hash)
	if err != nil {
		return nil, fmt.Errorf("compare the password of %s: %w", name, err)
	}
	if !match || !known {
		return nil, nil
	}
	return &found, nil
}

// Named returns the user with the name, or nil if the file does not contain it.
func (f *File) Named(name string) (*User, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return nil, err
	}
	if found, known := f.people[name]; known {
		return &found, nil
	}
	return nil, nil
}

// All returns the people of the file by name.
func (f *File) All() (people []decide.Person, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.people)) {
		people = append(people, f.people[name].Person)
	}
	return people, nil
}

// emptyReads is how often Watch must read an empty file before it reports that everybody was removed. An editor may
// write a new file, or a volume may be mounted late.
const emptyReads = 10

// Watch calls report with the people of the file at the start and whenever a person or a role has changed, until ctx
// ends. It checks once per interval. If reading or reporting fails, it logs the first error and tries again.
func (f *File) Watch(ctx context.Context, every time.Duration, log *slog.Logger,
	report func(context.Context, []decide.Person) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var reported []decide.Person
	empty := 0 // how often the file was missing or empty in a row
	for first, failed := true, false; ; {
		people, err := f.All()
		empty++
		if len(people) > 0 {
			empty = 0
		}
		waits := empty > 0 && empty < emptyReads
		if err == nil && !waits && (first || !reflect.DeepEqual(people, reported)) {
			if err = report(ctx, people); err == nil {
				first, reported = false, people
			}
		}
		if err != nil && !failed && ctx.Err() == nil {
			log.WarnContext(ctx, "the people of console.users are not in the audit trail yet", "error", err)
		}
		failed = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Line is a person's line in the file.
func Line(p decide.Person, password string) (string, error) {
	if err := decide.CheckName(p.Name); err != nil {
		return "", err
	}
	if strings.ContainsAny(p.Name, ":#") {
		return "", fmt.Errorf("the name %q must not have : or #", p.Name)
	}
	if len([]rune(password)) < LeastPassword {
		return "", fmt.Errorf("the password has less than %d characters", LeastPassword)
	}
	hash, err := argon2id.CreateHash(password, argon2id.DefaultParams)
	if err != nil {
		return "", fmt.Errorf("hash: %w", err)
	}
	return lineOf(p.Name, p.Roles, hash), nil
}

func lineOf(name string, roles []role.Role, hash string) string {
	words := []string{}
	for _, r := range roles {
		words = append(words, string(r))
	}
	return name + ":" + strings.Join(words, ",") + ":" + hash
}

// SetRoles replaces the roles of a person. The password stays. It returns false if the file does not contain the name.
func (f *File) SetRoles(name string, roles []role.Role) (bool, error) {
	found, err := f.Named(name)
	if found == nil || err != nil {
		return false, err
	}
	return true, f.replace(name, lineOf(name, roles, found.hash))
}

// Add writes a person to the file, or replaces the person with the same name. It writes a new file with mode 0600.
func (f *File) Add(p decide.Person, password string) error {
	line, err := Line(p, password)
	if err != nil {
		return err
	}
	return f.replace(p.Name, line)
}

// Remove removes a person from the file. It returns false if the file does not contain the name.
func (f *File) Remove(name string) (bool, error) {
	if found, err := f.Named(name); found == nil || err != nil {
		return false, err
	}
	return true, f.replace(name, "")
}

// replace replaces or adds the line of a name. An empty line removes it. All other lines stay.
func (f *File) replace(name, line string) error {
	content, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read console.users: %w", err)
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimRight(string(content), "\n"), "\n"), func(other string) bool {
		return strings.HasPrefix(strings.TrimSpace(other), name+":")
	})
	if line != "" {
		lines = append(lines, line)
	}
	temporary, err := os.CreateTemp(filepath.Dir(f.path), ".users-*") // CreateTemp sets mode 0600
	if err != nil {
		return fmt.Errorf("write console.users: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // no error after the rename
	_, err = temporary.WriteString(strings.TrimLeft(strings.Join(lines, "\n"), "\n") + "\n")
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("write console.users: %w", err)
	}
	return nil
}
