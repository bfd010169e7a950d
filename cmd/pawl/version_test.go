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
	if said.code != 0 || !strings.HasPrefix(said.out, "pawl ") || !strings.Contains(said.out, ", commit ") || !strings.Contains(said.out, runtime.Version()) {
		t.Errorf("exit code %d, %q", said.code, said.out)
	}
	var b build
	if err := json.Unmarshal([]byte(pawl(t, nil, "version", "--json").out), &b); err != nil || b.Go != runtime.Version() || b.Version == "" {
		t.Errorf("%+v, %v", b, err)
	}
}

// The list of what is in the binary is what the tool chain says of it.
func TestVersion_SBOM(t *testing.T) {
	t.Parallel()
	var got bom
	if err := json.Unmarshal([]byte(pawl(t, nil, "version", "--sbom").out), &got); err != nil {
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
