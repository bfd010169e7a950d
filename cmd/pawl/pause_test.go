package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/schematest"
)

// systemUser is what stands before the name that --who gives.
var systemUser = regexp.MustCompile(`uid:\d+(\([^)]*\))? `)

// What a person pauses is paused until a person resumes it, says so wherever sinks and sources are shown, and stands in
// the audit trail.
func TestPause_Resume(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	write(t, s.file, read(t, s.file)+`
consumers:
  crm: {url: "https://crm.example/in", secrets: [{value: "env:SECRET"}]}
`)
	paused := func() string {
		t.Helper()
		var names []string
		for _, r := range decode[[]report.Sink](t, s.pawl(t, "sinks", "--json")) {
			if r.State == "paused" {
				names = append(names, r.Name+" "+r.Reason[strings.Index(r.Reason, "by "):])
			}
		}
		for _, r := range decode[[]report.Source](t, s.pawl(t, "sources", "--json")) {
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
		{"pause source billing", 2, "needs --why", ""},
		{"pause source billing --why x --dry-run", 0, "would be done: it is about billing; 0 events wait now", ""},
		{"pause source nosuch --why x", 1, `there is no source "nosuch": write one of billing`, ""},
		{"pause consumer nosuch --why x", 1, `there is no consumer "consumers:nosuch": write one of consumers:crm`, ""},
		{"resume source billing --why x", 1, "billing is not paused", ""},
		{"pause source billing --who ada --why plans --request-id one", 0, "billing is paused; 0 events wait now", "billing by ada: plans"},
		{"pause source billing --who ada --why plans --request-id one", 0, "was decided before, by uid:", "billing by ada: plans"},
		{"pause source billing --who eve --why other", 1, "billing is paused since ", "billing by ada: plans"},
		{"pause consumer crm --who ada --why moves", 0, "consumers:crm is paused; 0 runs wait now", "consumers:crm by ada: moves, billing by ada: plans"},
		{"resume source billing --who eve --why mended", 0, "billing goes on", "consumers:crm by ada: moves"},
		{"resume sink consumers:crm --who eve --why moved", 0, "consumers:crm goes on", ""},
		{"resume source gone --why x", 1, `there is no source "gone"`, ""},
	} {
		got := s.pawl(t, strings.Fields(tt.args)...)
		if got.code != tt.code || !strings.Contains(got.out+got.err, tt.says) {
			t.Errorf("%s: code %d\n%s%s", tt.args, got.code, got.out, got.err)
		}
		if now := paused(); now != tt.then {
			t.Errorf("after %s: paused %q, want %q", tt.args, now, tt.then)
		}
	}
	// One that was paused and is configured no more can still be let go on: its events wait.
	if _, err := connect(t, dsn).Exec(t.Context(), `insert into pauses (kind, name, who, why) values ('source', 'gone', 'ada', 'moved')`); err != nil {
		t.Fatal(err)
	}
	if got := s.pawl(t, "resume", "source", "gone", "--who", "eve", "--why", "tidy"); got.code != 0 || !strings.Contains(got.out, "gone goes on") {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.err)
	}
	if got := s.pawl(t, "sinks"); got.code != 0 || strings.Contains(got.out, "paused since") {
		t.Errorf("screen:\n%s%s", got.out, got.err)
	}
	rows, err := connect(t, dsn).Query(t.Context(), `select action || ' ' || target || ' ' || actor || ' ' || reason from operator_actions order by id`)
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
	if want := "[pause-source billing ada plans pause-consumer crm ada moves resume-source billing eve mended resume-sink consumers:crm eve moved resume-source gone eve tidy]"; systemUser.ReplaceAllString(fmt.Sprint(trail), "") != want {
		t.Errorf("audit trail %v, want %s", trail, want)
	}
}
