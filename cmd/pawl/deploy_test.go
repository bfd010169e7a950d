package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// composeFile is what these tests read of docker-compose.yml.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
	Secrets  map[string]struct {
		File string `yaml:"file"`
	} `yaml:"secrets"`
}

type composeService struct {
	Image     string   `yaml:"image"`
	Restart   string   `yaml:"restart"`
	Command   []string `yaml:"command"`
	Volumes   []string `yaml:"volumes"`
	Secrets   []string `yaml:"secrets"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck map[string]any `yaml:"healthcheck"`
}

func compose(t *testing.T) composeFile {
	t.Helper()
	var c composeFile
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(repository, "docker-compose.yml"))), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Services) < 9 {
		t.Fatalf("read only %d services", len(c.Services))
	}
	return c
}

// What Compose would find out when it starts, and what it would not: an image that changes under us.
func TestCompose_Services_AreWhole(t *testing.T) {
	t.Parallel()
	c := compose(t)
	pinned := regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?$`)
	for name, s := range c.Services {
		if s.Image != "pawl:local" && !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %q is not pinned to a version", name, s.Image)
		}
		for on, how := range s.DependsOn {
			other, ok := c.Services[on]
			switch {
			case !ok:
				t.Errorf("%s depends on %s, which is no service", name, on)
			case how.Condition == "service_healthy" && other.Healthcheck["test"] == nil:
				t.Errorf("%s waits for %s to be healthy, which has no health check", name, on)
			case how.Condition == "service_completed_successfully" && other.Restart != "on-failure":
				t.Errorf("%s waits for %s to end, which is no one-shot", name, on)
			case how.Condition != "service_healthy" && how.Condition != "service_completed_successfully":
				t.Errorf("%s: %q says nothing about %s", name, how.Condition, on)
			}
		}
		for _, secret := range s.Secrets {
			if _, ok := c.Secrets[secret]; !ok {
				t.Errorf("%s wants the secret %s, which is not declared", name, secret)
			}
		}
		for _, volume := range s.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(from, "./") {
				if _, ok := c.Volumes[from]; !ok {
					t.Errorf("%s mounts %s, which is not declared", name, from)
				}
			} else if _, err := os.Stat(filepath.Join(repository, from)); err != nil {
				t.Errorf("%s mounts %s, which is not there", name, from)
			}
		}
	}
}

// The commands that the containers run are commands, with flags that there are.
func TestCompose_PawlCommands_AreUnderstood(t *testing.T) {
	t.Parallel()
	for name, s := range compose(t).Services {
		if s.Image != "pawl:local" {
			continue
		}
		if err := understood(s.Command); err != nil {
			t.Errorf("%s: %v: %v", name, s.Command, err)
		}
	}
}

// secrets.sh makes every secret that the file declares, and the configuration passes with them.
func TestCompose_Configuration_PassesCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"secrets.sh", "pawl.yaml"} {
		content := strings.ReplaceAll(read(t, filepath.Join(repository, "deploy", "compose", name)), "/run/secrets/", "secrets/")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second run keeps what the first made
		if out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "secrets.sh")).CombinedOutput(); err != nil {
			t.Fatalf("secrets.sh: %v: %s", err, out)
		}
	}
	for name, secret := range compose(t).Secrets {
		if _, err := os.Stat(filepath.Join(dir, "secrets", filepath.Base(secret.File))); err != nil {
			t.Errorf("secrets.sh does not make %s", name)
		}
	}
	r := pawl(t, nil, "config", "check", "--config", filepath.Join(dir, "pawl.yaml"))
	if r.code != 0 {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

func TestCompose_Scripts_Parse(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob(filepath.Join(repository, "deploy", "compose", "*.sh"))
	if err != nil || len(scripts) < 4 {
		t.Fatalf("found %v, %v", scripts, err)
	}
	for _, script := range scripts {
		shell := "sh"
		if strings.HasPrefix(read(t, script), "#!/bin/bash") {
			shell = "bash"
		}
		if out, err := exec.CommandContext(t.Context(), shell, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
}

// The image is built by a Docker engine, which is not everywhere; .ci/run builds with the same words.
func TestDockerfile_BuildsAsContinuousIntegrationDoes(t *testing.T) {
	t.Parallel()
	const command = `CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o `
	for _, file := range []string{"deploy/Dockerfile", ".ci/run"} {
		if !strings.Contains(read(t, filepath.Join(repository, file)), command) {
			t.Errorf("%s does not build with %q", file, command)
		}
	}
	ignore := strings.Fields(read(t, filepath.Join(repository, ".dockerignore")))
	packages, err := filepath.Glob(filepath.Join(repository, "*", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range packages {
		room := strings.Split(filepath.ToSlash(file), "/")[2]
		found := false
		for _, line := range ignore {
			found = found || line == "!"+room
		}
		if !found {
			t.Fatalf(".dockerignore keeps %s out of the image's build", room)
		}
	}
}
