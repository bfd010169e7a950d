package job

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
)

// At most two previews run at a time, and at most one per person. The other previews wait; a preview whose caller
// gives up releases its place.
func TestPreviews_TwoAtATime_OneForEachPerson(t *testing.T) {
	t.Parallel()
	var p previews
	person := func(subject string) *decide.Person {
		return &decide.Person{Identity: decide.Identity{Issuer: decide.IssuerLocal, Subject: subject}, Name: subject}
	}
	gaveUp, stop := context.WithCancel(t.Context())
	stop()
	first, err := p.enter(t.Context(), person("ada"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.enter(gaveUp, person("ada")); !decide.IsFault(err, decide.Later) {
		t.Errorf("a second preview of one person: %v, want it to wait", err)
	}
	second, err := p.enter(t.Context(), person("bob"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.enter(gaveUp, person("cy")); !decide.IsFault(err, decide.Later) {
		t.Errorf("a third preview: %v, want it to wait", err)
	}
	waited := make(chan func())
	go func() {
		leave, _ := p.enter(t.Context(), person("ada"))
		waited <- leave
	}()
	first()
	(<-waited)()
	second()
	if len(p.persons) != 0 || len(p.running) != 0 {
		t.Errorf("%d persons and %d previews are left", len(p.persons), len(p.running))
	}
}
