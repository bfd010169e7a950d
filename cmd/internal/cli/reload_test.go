package cli

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/schema/schematest"
)

// `pawl reload` stores a request for the chosen processes, with a row in the audit trail. A faulty file, an unknown
// process and a missing reason store nothing.
func TestReload_RequestStored(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	stored := func() (list string) {
		t.Helper()
		if err := commandtest.Connect(t, dsn).QueryRow(t.Context(), `select coalesce(string_agg(process, ' ' order by id), '') ||
			', ' || (select count(*) from operator_actions where action = 'reload') from reloads`).Scan(&list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, args := range []string{"--reason new", "--reason new --process ingress"} {
		r := s.Pawl(t, append([]string{"reload", "--as", "ada"}, strings.Fields(args)...)...)
		if r.Code != 0 || !strings.Contains(r.Out, "each process loads its file within ten seconds") {
			t.Errorf("%s: exit %d: %s%s", args, r.Code, r.Out, r.Err)
		}
	}
	for args, want := range map[string]string{
		"":                             "reload needs --reason",
		"--reason new --process pages": `unknown process "pages"`,
	} {
		if r := s.Pawl(t, append([]string{"reload", "--as", "ada"}, strings.Fields(args)...)...); r.Code == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: exit %d: %s, want %s", args, r.Code, r.Err, want)
		}
	}
	commandtest.Write(t, s.File, commandtest.Read(t, s.File)+"\nunknown: 1\n")
	if r := s.Pawl(t, "reload", "--as", "ada", "--reason", "new"); r.Code == 0 || !strings.Contains(r.Err, "unknown") {
		t.Errorf("a faulty file: exit %d: %s", r.Code, r.Err)
	}
	if got := stored(); got != "all ingress, 2" {
		t.Errorf("stored %s, want all ingress, 2", got)
	}
}
