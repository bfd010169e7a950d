package ledger_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/ledger"
)

// In every state, Peek predicts the result of a claim, and writes nothing.
func TestPeek_SaysWhatAClaimComesTo(t *testing.T) {
	b := setup(t)
	for name, c := range map[string]struct {
		set     string
		granted bool // a claim in the round of the row
		later   bool // a claim in a later round
	}{
		"done":             {`state = 'done'`, false, false},
		"skipped":          {`state = 'skipped'`, false, false},
		"compensated":      {`state = 'compensated'`, false, false},
		"uncertain":        {`state = 'uncertain', error_class = 'uncertain'`, false, true},
		"transient":        {`state = 'failed', error_class = 'transient'`, true, true},
		"exhausted":        {`state = 'failed', error_class = 'exhausted'`, false, true},
		"fault":            {`state = 'failed', error_class = 'fault'`, false, true},
		"permanent":        {`state = 'failed', error_class = 'permanent'`, false, true},
		"fault unanswered": {`state = 'failed', error_class = 'fault', result = '{"Unanswered": true}'`, false, true},
		"claimed":          {`state = 'claimed'`, false, false},
		"lapsed":           {`state = 'claimed', lease_until = now() - interval '1 minute'`, true, true},
		"lapsed in doubt":  {`state = 'claimed', committing = true, lease_until = now() - interval '1 minute'`, false, true},
		"committing still": {`state = 'claimed', committing = true`, false, false},
	} {
		for _, round := range []int{2, 3} {
			claim := b.claim("evt_1", round)
			claim.Key = "x:stripe:live:" + name + string(rune('0'+round))
			first := claim
			first.Round, first.Lease = 2, time.Hour
			b.grant(first)
			if _, err := b.pool.Exec(t.Context(), `update effects set `+c.set+` where key = $1`, claim.Key); err != nil {
				t.Fatal(err)
			}
			var found map[string]ledger.Grant
			if err := pgx.BeginTxFunc(t.Context(), b.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
				found, err = ledger.Peek(t.Context(), tx, []string{claim.Key, "x:nobody"})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			want := c.granted
			if round == 3 {
				want = c.later
			}
			if got := found[claim.Key].Claimable(round); got != want || len(found) != 1 {
				t.Errorf("%s in round %d: claimable is %t (%+v), want %t", name, round, got, found, want)
			}
			// The first refused claim that reads a claimed effect makes it uncertain.
			if _, err := b.store.Read(t.Context(), []string{claim.Key}); err != nil {
				t.Fatal(err)
			}
			g := b.grant(claim)
			if is := found[claim.Key]; g.Granted && (g.Generation == is.Generation) != is.KeepsKey() {
				t.Errorf("%s in round %d: it keeps its key: %t, and is of generation %d, after %d", name, round, is.KeepsKey(), g.Generation, is.Generation)
			}
			if g.Granted != want {
				t.Errorf("%s in round %d: granted is %t, want %t", name, round, g.Granted, want)
			}
		}
	}
}
