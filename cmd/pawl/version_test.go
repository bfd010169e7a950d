package main

import (
	"encoding/json"
	"runtime"
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
