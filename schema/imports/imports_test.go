package imports_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/imports"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestStatements_AreUnderstood(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

func TestBegin_BrokenOff_GoesOn_AndEffectsKeepTheirTime(t *testing.T) {
	t.Parallel()
	s := imports.New(schematest.New(t))
	first, err := s.Begin(t.Context(), "stripe", "stripe", []string{"live"})
	if err != nil || first.Resumed || len(first.EffectsFrom) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	first.Cursor["customers"], first.Read["customers"], first.LeftOut["sub_1"] = "cus_9", 100, "unreadable"
	if err := s.Advance(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	again, err := s.Begin(t.Context(), "stripe", "stripe", []string{"live"})
	if err != nil || !again.Resumed || again.ID != first.ID || again.Cursor["customers"] != "cus_9" || again.Read["customers"] != 100 || again.LeftOut["sub_1"] == "" {
		t.Errorf("%+v, %v; want the one that was broken off", again, err)
	}
	if err := s.Finish(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	anew, err := s.Begin(t.Context(), "stripe", "stripe", []string{"live", "test"})
	if err != nil || anew.Resumed || anew.ID == first.ID || len(anew.Cursor) != 0 {
		t.Errorf("%+v, %v; want a new one", anew, err)
	}
	if !anew.EffectsFrom["live"].Equal(first.EffectsFrom["live"]) || anew.EffectsFrom["test"].IsZero() {
		t.Errorf("effects from %v, began %v", anew.EffectsFrom, first.EffectsFrom)
	}
}
