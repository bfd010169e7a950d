package look_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/look"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{Walks: []string{"list"}})
}

// A page that renews itself is one look for as long as that holds; another person's look is another one.
func TestRecord_Again_OneLook(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	ids := []string{uuid.NewString(), uuid.NewString()}
	for _, who := range []string{"ada", "ada", "bob"} {
		if err := look.Record(t.Context(), db, who, "masked", ids); err != nil {
			t.Fatal(err)
		}
	}
	var looks int
	if err := db.QueryRow(t.Context(), `select count(*) from looks`).Scan(&looks); err != nil || looks != 4 {
		t.Errorf("%d looks, %v; want 2 of each", looks, err)
	}
}

// A list has the newest first, by person and by what was looked at, and goes on behind a row.
func TestList_FiltersAndPages(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	one, other := uuid.NewString(), uuid.NewString()
	for _, l := range [][3]string{{"ada", "masked", one}, {"bob", "reveal: they asked", one}, {"ada", "preview", other}} {
		if err := look.Record(t.Context(), db, l[0], l[1], []string{l[2]}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(f look.Filter, want ...string) []look.Row {
		t.Helper()
		found, err := look.List(t.Context(), db, f)
		var got []string
		for _, l := range found {
			got = append(got, l.Who+" "+l.Why)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v lists %q, %v, want %q", f, got, err, want)
		}
		return found
	}
	first := list(look.Filter{Limit: 2}, "ada preview", "bob reveal: they asked")
	list(look.Filter{Limit: 2, OlderThan: first[1].ID}, "ada masked")
	list(look.Filter{Limit: 9, Who: "ada"}, "ada preview", "ada masked")
	list(look.Filter{Limit: 9, What: []string{one}}, "bob reveal: they asked", "ada masked")
	list(look.Filter{Limit: 9, What: []string{one}, Who: "ada"}, "ada masked")
	list(look.Filter{Limit: 9, What: []string{}})
}

// Looks that are too old go, and only these, whoever asks for that.
func TestTrim_OldOnes(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	if _, err := db.Exec(t.Context(), `insert into looks (what, at, who, why)
		select gen_random_uuid(), now() - days * interval '1 day', days::text, 'masked' from unnest(array[500, 401, 399, 0]) days`); err != nil {
		t.Fatal(err)
	}
	if err := look.Trim(t.Context(), schematest.AsConsole(t, db)); err != nil {
		t.Fatal(err)
	}
	found, err := look.List(t.Context(), db, look.Filter{Limit: 9})
	if err != nil || len(found) != 2 || found[0].Who != "0" || found[1].Who != "399" {
		t.Errorf("left: %+v, %v", found, err)
	}
}
