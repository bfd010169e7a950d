package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// Ref is a secret that the file contains only by reference: "env:NAME" or "file:PATH". A path is relative to the
// configuration file; surrounding white space and a byte order mark are removed. After Load, Ref contains the resolved
// value. No method or formatting verb prints that value, except [Ref.Value].
type Ref struct {
	from  string
	value string
}

// Value returns the resolved secret, or "" if none is configured.
func (r Ref) Value() string { return r.value }

// String returns the reference, never the value.
func (r Ref) String() string { return r.from }

// GoString hides the value from %#v.
func (r Ref) GoString() string { return r.from }

// LogValue hides the value from slog.
func (r Ref) LogValue() slog.Value { return slog.StringValue(r.from) }

// byteOrderMark is written by some editors, mostly on Windows, at the beginning of a file.
const byteOrderMark = "\ufeff"

// maxSecretFile is the maximum size of a secret's file. A chain of certificates has about 10 KiB.
const maxSecretFile = 64 << 10

const fixRef = "put it in a variable or a file of mode 0600, and write env:NAME or file:PATH here"

// UnmarshalText stores the reference. It rejects any other text, which is probably a secret, without repeating it.
func (r *Ref) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	kind, name, _ := strings.Cut(s, ":")
	if (kind != "env" && kind != "file") || strings.TrimSpace(name) == "" {
		return fmt.Errorf("a secret must not be written into this file: %s", fixRef)
	}
	r.from = s
	return nil
}

// Read resolves a reference from outside of a configuration file. A path is relative to the working directory.
func (r *Ref) Read(env func(string) (string, bool)) error {
	_, err := r.resolve(".", env)
	return err
}

// path returns the path of the referenced file, or "" if the value is not in a file.
func (r Ref) path(dir string) string {
	path, found := strings.CutPrefix(r.from, "file:")
	switch {
	case !found:
		return ""
	case filepath.IsAbs(path):
		return path
	}
	return filepath.Join(dir, path)
}

// resolve reads the referenced value. Files are relative to dir. The warning names a file that others can read.
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
	path := r.path(dir)
	content, mode, err := readSecret(path)
	if err != nil {
		// The path is already part of the key's line, so the cause omits it.
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err
		}
		return "", fmt.Errorf("the file %s cannot be read: %w", path, err)
	}
	// If the mark stayed in the secret, no signature would match, and the cause would be invisible.
	if r.value = strings.TrimSpace(strings.TrimPrefix(string(content), byteOrderMark)); r.value == "" {
		return "", fmt.Errorf("the file %s is empty", path)
	}
	if mode&0o077 != 0 {
		warning = fmt.Sprintf("the file %s is readable by others (mode %#o)", path, mode)
	}
	return warning, nil
}

// readSecret returns the content and the permissions of a regular file. Reading anything else, such as a pipe, might
// never end.
func readSecret(path string) (content []byte, mode os.FileMode, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, errors.New("it is not a regular file")
	case info.Size() > maxSecretFile:
		return nil, 0, fmt.Errorf("it is larger than %d KiB", maxSecretFile>>10)
	}
	content, err = os.ReadFile(path)
	return content, info.Mode().Perm(), err
}
