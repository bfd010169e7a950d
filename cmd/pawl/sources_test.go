package main

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestSources(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe", "code": "github"})
	write(t, s.file, strings.Replace(read(t, s.file), "provider: github,", "provider: github, url: 'https://us:hush@hooks.example/in?token=hush',", 1))
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into source_counts values ('billing', 'admitted', 'secret-1', now(), 7, now())`); err != nil {
		t.Fatal(err)
	}
	r := s.pawl(t, "sources", "--json")
	reports := decode[[]report.Source](t, r)
	if len(reports) != 2 || reports[0].Name != "billing" || reports[0].Secrets[0].Uses != 7 || reports[0].Secrets[0].Verdict != "in use" || reports[0].Path != "/hooks/billing" {
		t.Errorf("report %+v", reports)
	}
	screen := s.pawl(t, "sources")
	if screen.code != 0 || !strings.Contains(screen.out, "in use") || !strings.Contains(screen.out, "github") {
		t.Errorf("screen:\n%s%s", screen.out, screen.err)
	}
	if !strings.Contains(screen.out, "https://hooks.example/in ") {
		t.Errorf("the URL is not shown:\n%s", screen.out)
	}
	if strings.Contains(r.out+screen.out, testSecret) || strings.Contains(r.out+screen.out, "hush") {
		t.Error("a secret is shown")
	}
}
