package look_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/look"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), look.Statements, schematest.OnPurpose{})
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
