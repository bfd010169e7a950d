package main

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A sink that is out says since when, why, and how many runs wait for it; the others are in.
func TestSinks(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	write(t, s.file, read(t, s.file)+`
consumers:
  crm: {url: "https://crm.example/in", places: 3, secrets: [{value: "env:SECRET"}]}
`)
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into breakers (sink, open, since, reason, probes, probe_at) values ('consumers:crm', true, now(), 'crm.example answered 503', 4, now())`); err != nil {
		t.Fatal(err)
	}
	reports := decode[[]report.Sink](t, s.pawl(t, "sinks", "--json"))
	found := false
	for _, r := range reports {
		switch {
		case r.Name == "consumers:crm":
			found = r.State == "out" && r.Since != nil && r.Reason == "crm.example answered 503" && r.Probes == 4 && r.Places == 3
		case r.State != "in" || r.Since != nil:
			t.Errorf("report %+v", r)
		}
	}
	if !found {
		t.Errorf("reports %+v, want crm out", reports)
	}
	if screen := s.pawl(t, "sinks"); screen.code != 0 || !strings.Contains(screen.out, "crm.example answered 503") {
		t.Errorf("screen:\n%s%s", screen.out, screen.err)
	}
}
