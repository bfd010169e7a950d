package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	said := pawl(t, nil, "version")
	if said.Code != 0 || !strings.HasPrefix(said.Out, "pawl ") || !strings.Contains(said.Out, ", commit ") || !strings.Contains(said.Out, runtime.Version()) {
		t.Errorf("exit code %d, %q", said.Code, said.Out)
	}
	var b build
	if err := json.Unmarshal([]byte(pawl(t, nil, "version", "--json").Out), &b); err != nil || b.Go != runtime.Version() || b.Version == "" {
		t.Errorf("%+v, %v", b, err)
	}
}

// pawl's list of the modules in the binary equals the list of the Go toolchain.
func TestVersion_SBOM(t *testing.T) {
	t.Parallel()
	var got bom
	if err := json.Unmarshal([]byte(pawl(t, nil, "version", "--sbom").Out), &got); err != nil {
		t.Fatal(err)
	}
	info, _ := debug.ReadBuildInfo()
	if got.Format != "CycloneDX" || got.Metadata.Component.Name != "github.com/pawlhq/pawl" || len(got.Components) != len(info.Deps)+1 {
		t.Errorf("%+v, and %d modules are in the binary", got, len(info.Deps))
	}
	for _, c := range got.Components[1:] {
		if !strings.HasPrefix(c.PURL, "pkg:golang/"+c.Name+"@v") {
			t.Errorf("%+v", c)
		}
	}
}

// The linker's values of a release override the build information, which `go install` and a checkout provide.
func TestVersion_Sources(t *testing.T) {
	t.Parallel()
	checkout := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "e1fff402"}, {Key: "vcs.time", Value: "2026-11-30T02:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	installed := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0"}}
	for want, got := range map[string]build{
		"pawl devel, commit e1fff402+changes, date 2026-11-30T02:00:00Z, go1.26.8": describe(checkout, build{}),
		"pawl v0.1.0, commit unknown, date unknown, go1.26.8":                      describe(installed, build{}),
		"pawl v0.1.0, commit abc, date 2026-12-01T00:00:00Z, go1.26.8": describe(checkout,
			build{Version: "v0.1.0", Commit: "abc", Date: "2026-12-01T00:00:00Z"}),
		"pawl devel, commit unknown, date unknown, ": describe(nil, build{}),
	} {
		if got.String() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
