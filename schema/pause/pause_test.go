package pause_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// Both processes see the pause. An ended pause stays stored, and only one process resumes the waiting effects. An
// ended pause is kept, and one process resumes the waiting effects.
func TestStore_BeginsOnce_EndsOnce(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), schematest.New(t)
	s := pause.New(db)
	begin := func(who string) bool {
		t.Helper()
		begun, err := s.Begin(ctx, pause.Pause{Kind: pause.Sink, Name: "finance", Actor: who, Reason: "the books are closed"})
		if err != nil {
			t.Fatal(err)
		}
		return begun
	}
	if !begin("ada") || begin("eve") {
		t.Error("want the first to pause it, and the second not")
	}
	now, err := pause.Now(ctx, db)
	if err != nil || len(now) != 1 {
		t.Fatalf("%+v, %v", now, err)
	}
	if p, is := pause.Find(now, pause.Sink, "finance"); !is || p.Actor != "ada" || p.Reason != "the books are closed" || time.Since(p.Since) > time.Minute {
		t.Errorf("paused as %+v", p)
	}
	if _, is := pause.Find(now, pause.Source, "finance"); is {
		t.Error("a source of that name is paused, too")
	}
	for i, want := range []bool{true, false} {
		if ended, err := s.End(ctx, pause.Sink, "finance"); err != nil || ended != want {
			t.Errorf("end %d: %t, %v", i+1, ended, err)
		}
	}
	begin("eve")
	spans, err := s.OfSinks(ctx)
	if err != nil || len(spans) != 2 || !spans[0].Over || spans[1].Over || spans[0].EndedAgo > spans[0].Ago || spans[1].Actor != "eve" {
		t.Fatalf("%+v, %v", spans, err)
	}
	for i, want := range []bool{true, false} {
		if tell, err := s.Tell(ctx, spans[0].ID); err != nil || tell != want {
			t.Errorf("tell %d: %t, %v", i+1, tell, err)
		}
	}
	if tell, err := s.Tell(ctx, spans[1].ID); err != nil || tell {
		t.Errorf("signalled during the pause: %t, %v", tell, err)
	}
}

// The text is used in a timer's summary, which Temporal limits to 400 bytes.
func TestWords_Bounded(t *testing.T) {
	t.Parallel()
	p := pause.Pause{Since: time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC), Actor: "ada", Reason: "the books\nare closed"}
	if got := p.Words(); got != "is paused since 2026-11-22T08:00:00Z by ada: the books are closed" {
		t.Errorf("words %q", got)
	}
	p.Actor, p.Reason = strings.Repeat("ä", 100), strings.Repeat("日", 200)
	if got := p.Words(); len(got) > 240 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
