package people_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/operatortest"
	"github.com/pawlhq/pawl/cmd/internal/operator/people"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// A console reports its file. The database role of a console cannot write to the audit trail, so a worker records the
// changes. The list has all people.
func TestReport_ConsoleRole_RecordedAndListed(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	worker := schematest.As(t, db, schematest.Worker)
	operatortest.Serve(t, &decide.Operator{Verbs: operator.Verbs, DB: worker,
		Audit: audit.New(worker, slog.New(slog.DiscardHandler))})
	console := operatortest.Console(schematest.As(t, db, schematest.Console))
	ada := decide.Person{Name: "ada", Roles: []role.Role{role.Operator, role.Reveal}}
	bob := decide.Person{Name: "bob", Roles: []role.Role{role.Viewer}}
	for _, file := range [][]decide.Person{{ada, bob}, {ada}, {ada}} {
		if err := people.Report(t.Context(), console, "host-1", file); err != nil {
			t.Fatal(err)
		}
	}
	all, err := people.List(t.Context(), console)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range all {
		got = append(got, fmt.Sprint(l.Name, " ", l.Roles, " ", l.State, " ", l.ChangedAt.After(l.AddedAt)))
	}
	want := []string{"ada [operator reveal] active false", "bob [viewer] removed true"}
	if !slices.Equal(got, want) {
		t.Errorf("the list has %q, want %q", got, want)
	}
	trail, err := console.Audit.List(t.Context(), audit.Filter{Target: "bob", Limit: 9})
	if err != nil || len(trail) != 2 || trail[0].Action != audit.RemovePerson || trail[0].Actor != people.ByFile ||
		trail[0].Reason != "removed, was viewer; read from console.users by the console on host-1" {
		t.Errorf("the trail has %+v, %v", trail, err)
	}
}

// A worker refuses a name that looks like a program, and an unknown role.
func TestReport_InvalidName_Refused(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	o := &decide.Operator{DB: db, Audit: audit.New(db, slog.New(slog.DiscardHandler))}
	for _, p := range []decide.Person{{Name: "token:shop", Roles: []role.Role{role.Viewer}}, {Name: "eve", Roles: []role.Role{"root"}}} {
		if err := people.Report(t.Context(), o, "host", []decide.Person{p}); !decide.IsFault(err, decide.Invalid) {
			t.Errorf("%+v: %v, want a fault", p, err)
		}
	}
}
