package receipt_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
)

// A series of failures continues across processes and across an outage of the database, until an answer is 2xx.
func TestCountAnswers_InARow(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	answers := func(in string) (a receipt.Answers) {
		for _, c := range in {
			at = at.Add(time.Minute)
			a = a.And(c == 'o', at)
		}
		a.Source = "a"
		return a
	}
	var since time.Time
	for _, step := range []struct {
		in   receipt.Answers
		want int64
		new  bool
	}{
		{answers("oo"), 0, false}, {answers("ff"), 2, true}, {answers("f"), 3, false}, {answers("ofof"), 1, true}, {answers("f").Then(answers("f")), 3, false},
		{answers("f").Then(answers("")), 4, false}, {answers("f").Then(answers("of")), 1, true}, {answers("o").Then(answers("f")), 1, true}, {answers("fo"), 0, false},
	} {
		if step.in.Source == "" {
			step.in.Source = "a"
		}
		if err := s.CountAnswers(t.Context(), []receipt.Answers{step.in}); err != nil {
			t.Fatal(err)
		}
		got, err := receipt.Failing(t.Context(), pool, []string{"a", "b"})
		if err != nil || len(got) == 0 && step.want != 0 || len(got) == 1 && (got[0].Failures != step.want || got[0].Since.Equal(since) == step.new || !got[0].Last.Equal(step.in.Last)) {
			t.Errorf("after %+v: %+v, %v; want %d", step.in, got, err, step.want)
		}
		if len(got) == 1 {
			since = got[0].Since
		}
	}
}
