package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// Ref is a secret that stands in the file only by reference: "env:NAME" or "file:PATH" (a path is
// relative to the configuration file; surrounding white space and a byte order mark are dropped). After
// Load it holds the resolved value; it never prints it.
type Ref struct {
	from  string
	value string
}

// Value returns the resolved secret, "" where none was configured.
func (r Ref) Value() string { return r.value }

// String names the reference and never the value.
func (r Ref) String() string { return r.from }

// GoString hides the value from %#v.
func (r Ref) GoString() string { return r.from }

// LogValue hides the value from slog.
func (r Ref) LogValue() slog.Value { return slog.StringValue(r.from) }

// byteOrderMark is what some editors, on Windows above all, write before the text of a file.
const byteOrderMark = "\ufeff"

// maxSecretFile is the largest file that a secret is read from; a chain of certificates has some 10 KiB.
const maxSecretFile = 64 << 10

const fixRef = "put it in a variable or a file of mode 0600, and write env:NAME or file:PATH here"

// UnmarshalText keeps the reference. A text that is no reference is taken for a secret and is
// refused without being repeated.
func (r *Ref) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	kind, name, _ := strings.Cut(s, ":")
	if (kind != "env" && kind != "file") || strings.TrimSpace(name) == "" {
		return fmt.Errorf("a secret must not stand in this file: %s", fixRef)
	}
	r.from = s
	return nil
}

// resolve reads what r refers to; files are relative to dir. The warning names a file that others
// may read.
func (r *Ref) resolve(dir string, env func(string) (string, bool)) (warning string, err error) {
	kind, name, _ := strings.Cut(r.from, ":")
	switch kind {
	case "":
		return "", nil
	case "env":
		v, ok := env(name)
		if r.value = strings.TrimSpace(v); !ok || r.value == "" {
			return "", fmt.Errorf("the variable %s is not set", name)
		}
		return "", nil
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	content, mode, err := readSecret(path)
	if err != nil {
		// The path is in the key's own line; the cause without it reads better.
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err
		}
		return "", fmt.Errorf("the file %s cannot be read: %w", path, err)
	}
	// With the mark the secret would fit no signature, and nobody would see why.
	if r.value = strings.TrimSpace(strings.TrimPrefix(string(content), byteOrderMark)); r.value == "" {
		return "", fmt.Errorf("the file %s is empty", path)
	}
	if mode&0o077 != 0 {
		warning = fmt.Sprintf("the file %s may be read by others (mode %#o)", path, mode)
	}
	return warning, nil
}

// readSecret returns what a file holds, and its permissions. Anything else than a file may have no end, or wait for
// somebody who writes.
func readSecret(path string) (content []byte, mode os.FileMode, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, errors.New("it is no regular file")
	case info.Size() > maxSecretFile:
		return nil, 0, fmt.Errorf("it is larger than %d KiB", maxSecretFile>>10)
	}
	content, err = os.ReadFile(path)
	return content, info.Mode().Perm(), err
}
