package effect

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/ledger"
)

// The preview names the consequence of too long a wait: for a new round while the sink is down, and for a remembered
// key while the sink is paused.
func TestBeyond(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tried := func(class ledger.Class, result string) Standing {
		return Standing{State: ledger.Failed, Attempt: 3, Round: 1, Class: class, Age: 2 * time.Hour, Result: json.RawMessage(result)}
	}
	const dead = "if the sink stays down until the last attempt at 2026-03-02T11:00:00Z, the run parks with the status dead"
	const doubt = " beyond 2026-03-02T10:00:00Z, it will have forgotten the first attempt, and the effect becomes uncertain"
	api := Policy{Retries: Retries{MaxElapsed: 23 * time.Hour}, KeyLifetime: 24 * time.Hour}
	for name, tt := range map[string]struct {
		policy Policy
		paused bool
		round  int
		stands Standing
		want   string
	}{
		"out, never begun":                    {api, false, 0, Standing{}, dead},
		"out, a new round, and a new key":     {api, false, 2, tried(ledger.Fault, ""), dead},
		"out, the key is kept":                {api, false, 2, tried(ledger.Exhausted, ""), "if the sink stays down" + doubt},
		"out, keys are remembered forever":    {Policy{Retries: api.Retries}, false, 2, tried(ledger.Exhausted, ""), dead},
		"out, in its round":                   {Policy{Retries: api.Retries}, false, 1, tried(ledger.Transient, ""), ""},
		"out, tried for a time not known":     {Policy{}, false, 2, tried(ledger.Exhausted, ""), ""},
		"paused, never begun":                 {api, true, 0, Standing{}, ""},
		"paused, the key is kept":             {api, true, 2, tried(ledger.Exhausted, ""), "if the sink stays paused" + doubt},
		"paused, a fault that was answered":   {api, true, 2, tried(ledger.Fault, ""), ""},
		"paused, a fault after no answer":     {api, true, 2, tried(ledger.Fault, `{"Unanswered": true}`), "if the sink stays paused" + doubt},
		"paused, keys are remembered forever": {Policy{Retries: api.Retries}, true, 2, tried(ledger.Exhausted, ""), ""},
	} {
		if got := tt.policy.Beyond(Holding{Paused: tt.paused}, Call{Round: tt.round}, tt.stands, now); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
