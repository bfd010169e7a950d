package pending_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// Only one decision per verb and subject can be pending. A decision ends once: by a person or by its expiry.
func TestAsk_OneOfAVerbAboutASubject(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	ask := func(id, verb, who string, lasts time.Duration, replaces string, want bool) {
		t.Helper()
		d := pending.Decision{AskedIssuer: "local", AskedSubject: who, Chosen: []byte(`{"events": []}`),
			ID: id, Subject: "r-1", Verb: verb, Target: "evt_1", Args: map[string]string{"effect": "x"}, AskedBy: who, Reason: "seen",
			Money: map[string]int64{"eur": 5}, State: make([]byte, 32)}
		if asked, err := pending.Ask(t.Context(), db, d, lasts, replaces); err != nil || asked != want {
			t.Fatalf("%s: asked %t, %v", id, asked, err)
		}
	}
	ask("1", "approve", "ada", time.Hour, "", true)
	ask("x", "approve", "eve", time.Hour, "", false)
	ask("2", "approve", "bob", time.Hour, "1", true)
	ask("3", "skip", "ada", time.Hour, "", true)
	ask("4", "done", "ada", 0, "", true)
	about, err := pending.About(t.Context(), db, "r-1")
	if err != nil || len(about) != 2 || about[0].ID != "2" || about[0].AskedBy != "bob" || about[0].Money["eur"] != 5 || about[0].AskedSubject != "bob" || about[0].Chosen != nil || about[1].ID != "3" {
		t.Fatalf("%+v, %v; want the approve of bob and the skip", about, err)
	}
	if whole, err := pending.GetWhole(t.Context(), db, "2"); err != nil || string(whole.Chosen) != `{"events": []}` {
		t.Errorf("%+v, %v; want it with its list", whole, err)
	}
	for id, waits := range map[string]bool{"1": false, "2": true, "4": false} {
		if d, err := pending.Get(t.Context(), db, id); waits && err != nil || !waits && !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s: %+v, %v", id, d, err)
		}
		for i, want := range []bool{waits, false} {
			if ended, err := pending.End(t.Context(), db, id); err != nil || ended != want {
				t.Errorf("end %s the %d. time: %t, %v", id, i+1, ended, err)
			}
		}
	}
	if ended, err := pending.End(t.Context(), db, "3"); err != nil || !ended {
		t.Fatalf("end the skip: %t, %v", ended, err)
	}
	if all, err := pending.List(t.Context(), db); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v; want none", all, err)
	}
}
