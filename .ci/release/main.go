// Command release builds the binaries of .goreleaser.yaml as a snapshot, without GoReleaser and without a network, and
// checks them: each binary is static, has the settings of the file and contains the version.
//
//	go run ./.ci/release DIRECTORY [OS_ARCH...]
//
// It writes DIRECTORY/OS_ARCH/pawl for the named targets, or for all, and prints the version.
package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/goccy/go-yaml"
)

const settingsFile = ".goreleaser.yaml"

// settings are the parts of .goreleaser.yaml that determine a binary.
type settings struct {
	Builds   []build
	Snapshot struct {
		Version string `yaml:"version_template"`
	}
}

// build is an item of `builds`. Decoding fails for an unknown key, because the built binary would not follow it.
type build struct {
	Main, Binary        string
	Env, Flags, Ldflags []string
	Timestamp           string `yaml:"mod_timestamp"`
	Goos, Goarch        []string
}

// commit has the values of GoReleaser's templates.
type commit struct {
	Version, FullCommit, ShortCommit, CommitDate, CommitTimestamp string
}

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("usage: go run ./.ci/release DIRECTORY [OS_ARCH...]"))
	}
	dir, only, built := os.Args[1], os.Args[2:], 0
	s, err := readSettings()
	fail(err)
	c, err := readCommit()
	fail(err)
	c.Version, err = render(s.Snapshot.Version, c)
	fail(err)
	for _, b := range s.Builds {
		for _, system := range b.Goos {
			for _, arch := range b.Goarch {
				target := system + "_" + arch
				if len(only) > 0 && !slices.Contains(only, target) {
					continue
				}
				path := filepath.Join(dir, target, b.Binary)
				fail(b.run(system, arch, path, c))
				if err := b.check(system, arch, path, c); err != nil {
					fail(fmt.Errorf("%s: %w", target, err))
				}
				built++
			}
		}
	}
	if len(only) > 0 && built != len(only) {
		fail(fmt.Errorf("%s does not have all of the targets %v", settingsFile, only))
	}
	fmt.Println("v" + c.Version)
}

func readSettings() (s settings, err error) {
	content, err := os.ReadFile(settingsFile)
	if err != nil {
		return s, err
	}
	if err := yaml.Unmarshal(content, &s); err != nil {
		return s, err
	}
	var whole struct{ Builds []any }
	if err := yaml.Unmarshal(content, &whole); err != nil {
		return s, err
	}
	for i := range whole.Builds {
		one, err := yaml.Marshal(whole.Builds[i])
		if err == nil {
			err = yaml.UnmarshalWithOptions(one, new(build), yaml.Strict())
		}
		if err != nil {
			return s, fmt.Errorf("%s: builds[%d]: %w", settingsFile, i, err)
		}
	}
	if len(s.Builds) == 0 || s.Snapshot.Version == "" {
		return s, fmt.Errorf("%s has no builds, or no version of a snapshot", settingsFile)
	}
	return s, nil
}

func readCommit() (commit, error) {
	// As in GoReleaser, the date is in UTC.
	show := exec.Command("git", "log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%H %h %cd %ct")
	show.Env = append(os.Environ(), "TZ=UTC")
	out, err := show.Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 4 {
		return commit{}, fmt.Errorf("read the commit: %q, %w", out, err)
	}
	return commit{FullCommit: words[0], ShortCommit: words[1], CommitDate: words[2], CommitTimestamp: words[3]}, nil
}

// render fills in a template of the file.
func render(text string, c commit) (string, error) {
	parsed, err := template.New("").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = parsed.Execute(&b, c)
	return b.String(), err
}

func (b build) run(system, arch, path string, c commit) error {
	linked, err := render(strings.Join(b.Ldflags, " "), c)
	if err != nil {
		return err
	}
	args := slices.Concat([]string{"build"}, b.Flags, []string{"-ldflags=" + linked, "-o", path, b.Main})
	cmd := exec.Command("go", args...)
	cmd.Env = slices.Concat(os.Environ(), b.Env, []string{"GOOS=" + system, "GOARCH=" + arch})
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// check returns an error if the binary is not static, was built for another target, or does not contain the version.
func (b build) check(system, arch, path string, c commit) error {
	if err := static(system, path); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	for key, want := range map[string]string{"GOOS": system, "GOARCH": arch, "CGO_ENABLED": "0", "-trimpath": "true"} {
		var got string
		for _, s := range info.Settings {
			if s.Key == key {
				got = s.Value
			}
		}
		if got != want {
			return fmt.Errorf("was built with %s=%s, want %s", key, got, want)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, text := range []string{"v" + c.Version, c.FullCommit, c.CommitDate} {
		if !bytes.Contains(content, []byte(text)) {
			return fmt.Errorf("does not contain %s", text)
		}
	}
	return nil
}

// static returns an error if the binary loads a library that is not part of the operating system. A binary for macOS
// always loads the system's libraries, because macOS has no stable system calls.
func static(system, path string) error {
	if system == "darwin" {
		f, err := macho.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		libraries, err := f.ImportedLibraries()
		for _, name := range libraries {
			if !strings.HasPrefix(name, "/usr/lib/") && !strings.HasPrefix(name, "/System/Library/") {
				return fmt.Errorf("loads %s", name)
			}
		}
		return err
	}
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return errors.New("is linked dynamically")
		}
	}
	return nil
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}
