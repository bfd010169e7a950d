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

func TestBegin_BrokenOff_GoesOn(t *testing.T) {
	t.Parallel()
	s := imports.New(schematest.New(t))
	first, err := s.Begin(t.Context(), "stripe", "stripe")
	if err != nil || first.Resumed {
		t.Fatalf("%+v, %v", first, err)
	}
	first.Cursor["customers"], first.Read["customers"], first.LeftOut["sub_1"] = "cus_9", 100, "unreadable"
	if err := s.Advance(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	again, err := s.Begin(t.Context(), "stripe", "stripe")
	if err != nil || !again.Resumed || again.ID != first.ID || again.Cursor["customers"] != "cus_9" || again.Read["customers"] != 100 || again.LeftOut["sub_1"] == "" {
		t.Errorf("%+v, %v; want the interrupted one", again, err)
	}
	if err := s.Finish(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	anew, err := s.Begin(t.Context(), "stripe", "stripe")
	if err != nil || anew.Resumed || anew.ID == first.ID || len(anew.Cursor) != 0 {
		t.Errorf("%+v, %v; want a new one", anew, err)
	}
}
