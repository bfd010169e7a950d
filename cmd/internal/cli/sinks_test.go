package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/schematest"
)

// For a sink that is down, the output contains the time since when it is down, the reason, and the number of waiting
// runs. All other sinks are up.
func TestSinks(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	commandtest.Write(t, s.File, commandtest.Read(t, s.File)+`
destinations:
  crm: {url: "https://crm.example/in", max_concurrency: 3, sources: [billing], secrets: [{value: "env:SECRET"}]}
`)
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into breakers (sink, open, since, reason, probes, probe_at) values ('destinations:crm', true, now(), 'crm.example answered 503', 4, now())`); err != nil {
		t.Fatal(err)
	}
	reports := commandtest.Decode[[]report.Sink](t, s.Pawl(t, "sinks", "--json"))
	found := false
	for _, r := range reports {
		switch {
		case r.Name == "destinations:crm":
			found = r.State == "down" && r.Since != nil && r.Reason == "crm.example answered 503" && r.Probes == 4 && r.MaxConcurrency == 3
		case r.State != "up" || r.Since != nil:
			t.Errorf("report %+v", r)
		}
	}
	if !found {
		t.Errorf("reports %+v, want crm out", reports)
	}
	if screen := s.Pawl(t, "sinks"); screen.Code != 0 || !strings.Contains(screen.Out, "crm.example answered 503") {
		t.Errorf("screen:\n%s%s", screen.Out, screen.Err)
	}
}

func TestSources(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe", "code": "github"})
	commandtest.Write(t, s.File, strings.Replace(commandtest.Read(t, s.File), "provider: github,", "provider: github, url: 'https://us:hush@hooks.example/in?token=hush',", 1))
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into source_counts values ('billing', 'admitted', 'secret-1', now(), 7, now())`); err != nil {
		t.Fatal(err)
	}
	r := s.Pawl(t, "sources", "--json")
	reports := commandtest.Decode[[]report.Source](t, r)
	if len(reports) != 2 || reports[0].Name != "billing" || reports[0].Secrets[0].Uses != 7 || reports[0].Secrets[0].Verdict != "in use" || reports[0].Path != "/hooks/billing" {
		t.Errorf("report %+v", reports)
	}
	screen := s.Pawl(t, "sources")
	if screen.Code != 0 || !strings.Contains(screen.Out, "in use") || !strings.Contains(screen.Out, "github") {
		t.Errorf("screen:\n%s%s", screen.Out, screen.Err)
	}
	if !strings.Contains(screen.Out, "https://hooks.example/in ") {
		t.Errorf("the URL is not shown:\n%s", screen.Out)
	}
	if strings.Contains(r.Out+screen.Out, commandtest.Secret) || strings.Contains(r.Out+screen.Out, "hush") {
		t.Error("a secret is shown")
	}
}

// systemUser matches the prefix that precedes the name from --as.
var systemUser = regexp.MustCompile(`uid:\d+(\([^)]*\))? `)

// A paused sink or source stays paused until a person resumes it. All lists of sinks and sources show the pause, and
// the audit trail records it.
func TestPause_Resume(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	commandtest.Write(t, s.File, commandtest.Read(t, s.File)+`
destinations:
  crm: {url: "https://crm.example/in", sources: [billing], secrets: [{value: "env:SECRET"}]}
`)
	paused := func() string {
		t.Helper()
		var names []string
		for _, r := range commandtest.Decode[[]report.Sink](t, s.Pawl(t, "sinks", "--json")) {
			if r.State == "paused" {
				names = append(names, r.Name+" "+r.Reason[strings.Index(r.Reason, "by "):])
			}
		}
		for _, r := range commandtest.Decode[[]report.Source](t, s.Pawl(t, "sources", "--json")) {
			if r.Paused != "" {
				names = append(names, r.Name+" "+r.Paused[strings.Index(r.Paused, "by "):])
			}
		}
		return systemUser.ReplaceAllString(strings.Join(names, ", "), "")
	}
	for _, tt := range []struct {
		args string
		code int
		says string
		then string
	}{
		{"sources pause billing", 2, "needs --reason", ""},
		{"sources pause billing --reason x --dry-run", 0, "would be done: it affects billing; 0 events wait now", ""},
		{"sources pause nosuch --reason x", 1, `unknown source "nosuch": write one of billing`, ""},
		{"sinks pause destinations:nosuch --reason x", 1, `unknown sink "destinations:nosuch": write one of workspaces, finance, email, destinations:crm`, ""},
		{"sources resume billing --reason x", 1, "billing is not paused", ""},
		{"sources pause billing --as ada --reason plans --request-id one", 0, "billing is paused; 0 events wait now", "billing by ada: plans"},
		{"sources pause billing --as ada --reason plans --request-id one", 0, "was already decided, by uid:", "billing by ada: plans"},
		{"sources pause billing --as eve --reason other", 1, "billing is paused since ", "billing by ada: plans"},
		{"sinks pause destinations:crm --as ada --reason moves", 0, "destinations:crm is paused; 0 runs wait now", "destinations:crm by ada: moves, billing by ada: plans"},
		{"sources resume billing --as eve --reason mended", 0, "billing is resumed", "destinations:crm by ada: moves"},
		{"sinks resume destinations:crm --as eve --reason moved", 0, "destinations:crm is resumed", ""},
		{"sources resume gone --reason x", 1, `unknown source "gone"`, ""},
	} {
		got := s.Pawl(t, strings.Fields(tt.args)...)
		if got.Code != tt.code || !strings.Contains(got.Out+got.Err, tt.says) {
			t.Errorf("%s: code %d\n%s%s", tt.args, got.Code, got.Out, got.Err)
		}
		if now := paused(); now != tt.then {
			t.Errorf("after %s: paused %q, want %q", tt.args, now, tt.then)
		}
	}
	// A paused sink that is no longer configured can be resumed, because runs still wait for it.
	if _, err := commandtest.Connect(t, dsn).Exec(t.Context(), `insert into pauses (kind, name, who, why) values ('source', 'gone', 'ada', 'moved')`); err != nil {
		t.Fatal(err)
	}
	if got := s.Pawl(t, "sources", "resume", "gone", "--as", "eve", "--reason", "tidy"); got.Code != 0 || !strings.Contains(got.Out, "gone is resumed") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if got := s.Pawl(t, "sinks"); got.Code != 0 || strings.Contains(got.Out, "paused since") {
		t.Errorf("screen:\n%s%s", got.Out, got.Err)
	}
	rows, err := commandtest.Connect(t, dsn).Query(t.Context(), `select action || ' ' || target || ' ' || actor || ' ' || reason from operator_actions order by id`)
	if err != nil {
		t.Fatal(err)
	}
	var trail []string
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			t.Fatal(err)
		}
		trail = append(trail, row)
	}
	if want := "[pause-source billing ada plans pause-sink destinations:crm ada moves resume-source billing eve mended resume-sink destinations:crm eve moved resume-source gone eve tidy]"; systemUser.ReplaceAllString(fmt.Sprint(trail), "") != want {
		t.Errorf("audit trail %v, want %s", trail, want)
	}
}
