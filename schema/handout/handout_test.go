package handout_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/handout"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestStore_TheNewestOfEachURL(t *testing.T) {
	t.Parallel()
	store := handout.New(schematest.New(t))
	for _, h := range [][2]string{{"https://a.example/1", "old"}, {"https://a.example/2", "other"}, {"https://a.example/1", "new"}} {
		if err := store.Save(t.Context(), h[0], []byte(h[1])); err != nil {
			t.Fatal(err)
		}
	}
	all, err := store.Load(t.Context())
	if err != nil || len(all) != 2 || string(all["https://a.example/1"]) != "new" || string(all["https://a.example/2"]) != "other" {
		t.Errorf("loaded %q, %v", all, err)
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), handout.Statements, schematest.OnPurpose{})
}
