package ledger

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/schematest"
)

// Somebody who was taken over comes back in the flush of the holder: before it or after it, the holder's
// mark and outcome are written and its own are not.
func TestFlush_HolderAndTakenOver_EachGetsItsOwn(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int64{"the holder first": {2, 1}, "the holder last": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := schematest.New(t)
			s := New(pool)
			t.Cleanup(s.Close)
			c := Claim{Key: "finance-export:1", Kind: "finance-export", ReceiptID: uuid.NewString(), EventID: "evt_1", WorkflowID: "w", RunID: "r", Lease: time.Minute}
			for token := range int64(2) {
				if g, err := s.Claim(t.Context(), c); err != nil || g.Token != token+1 {
					t.Fatalf("grant %+v, %v", g, err)
				}
				if token == 0 {
					if _, err := pool.Exec(t.Context(), `update effects set lease_until = now() - interval '1 second'`); err != nil {
						t.Fatal(err)
					}
				}
			}
			var marks, finishes []op
			for _, token := range order {
				state, class := Done, Class("")
				if token == 1 {
					state, class = Failed, Permanent
				}
				marks = append(marks, op{mark: &hold{key: c.Key, token: token}})
				finishes = append(finishes, op{finish: &Finish{Key: c.Key, Token: token, State: state, Class: class, StartedAt: time.Now()}})
			}
			marked, err := s.flush(t.Context(), marks)
			if err != nil {
				t.Fatal(err)
			}
			finished, err := s.flush(t.Context(), finishes)
			if err != nil {
				t.Fatal(err)
			}
			for i, token := range order {
				if want := token == 2; marked[i].held != want || finished[i].finished.Held != want {
					t.Errorf("token %d: mark held %v, finish held %v; want %v", token, marked[i].held, finished[i].finished.Held, want)
				}
			}
			found, err := s.Look(t.Context(), []string{c.Key})
			if err != nil || found[c.Key].State != Done {
				t.Errorf("recorded %+v, %v; want what the holder said", found[c.Key], err)
			}
		})
	}
}
