package main

import (
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMigrate_JSON_Version(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
	if r := s.Pawl(t, "migrate", "--json"); r.Code != 0 || commandtest.Decode[map[string]int](t, r)["version"] < 1 {
		t.Fatalf("migrate: exit %d, %s %s", r.Code, r.Out, r.Err)
	}
}
