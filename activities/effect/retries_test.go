package effect_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// The test compares the retries in the ledger with docs/configuration.md: the delays double up to max, the last
// attempt is made when the time ends, and only the ledger counts attempts. It moves the clock by each delay.
func TestRetries_LastTry_WhenTheTimeIsOver(t *testing.T) {
	for name, tt := range map[string]struct {
		policy effect.Policy
		// over is the expected time of the last attempt, relative to the first attempt.
		over     time.Duration
		min, max int
	}{
		"short":           {effect.Policy{Timeout: time.Minute, Retries: effect.Retries{InitialInterval: 10 * time.Second, MaxInterval: time.Minute, MaxElapsed: 10 * time.Minute}}, 10 * time.Minute, 10, 14},
		"by default":      {effect.Policy{Timeout: 10 * time.Second, Retries: effect.Retries{InitialInterval: time.Second, MaxInterval: 10 * time.Minute, MaxElapsed: 24 * time.Hour}}, 24 * time.Hour, 128, 155},
		"one try":         {effect.Policy{Timeout: time.Minute, Retries: effect.Retries{InitialInterval: time.Hour, MaxInterval: time.Hour, MaxElapsed: time.Minute}}, 0, 1, 1},
		"key's lifetime":  {effect.Policy{Timeout: time.Minute, KeyLifetime: 5 * time.Minute, Retries: effect.Retries{InitialInterval: 10 * time.Second, MaxInterval: time.Minute, MaxElapsed: 24 * time.Hour}}, 4 * time.Minute, 5, 8},
		"less than a max": {effect.Policy{Timeout: time.Minute, Retries: effect.Retries{InitialInterval: time.Minute, MaxInterval: time.Hour, MaxElapsed: 2 * time.Minute}}, 2 * time.Minute, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			tries, trying := 0, time.Duration(0)
			for {
				tries++
				// Each attempt belongs to another run, as after a reset, because attempts are counted by key.
				result, err := b.do(call("evt_1", 0), tt.policy, "x", fail(busy(0, false)))
				if err == nil {
					b.want(result, err, effect.Failed)
					break
				}
				wait := b.again(err, effect.TypeTransient).NextRetryDelay()
				if least, most := tt.policy.Retries.InitialInterval, 2*tt.policy.Retries.MaxInterval; wait < least || wait > most {
					t.Fatalf("after %d tries the wait is %s", tries, wait)
				}
				b.passes(wait)
				trying += wait
			}
			// The running time of the test itself also counts as elapsed.
			const ran = 20 * time.Second
			if trying > tt.over || trying < tt.over-ran {
				t.Errorf("the last try came after %s, want %s", trying, tt.over)
			}
			if tries < tt.min || tries > tt.max {
				t.Errorf("%d tries, want %d to %d", tries, tt.min, tt.max)
			}
			var recorded, failures int
			var since time.Duration
			if err := b.pool.QueryRow(t.Context(), `select (select count(*) from effect_attempts where outcome = 'failed'), failures, now() - tried_since from effects`).
				Scan(&recorded, &failures, &since); err != nil {
				t.Fatal(err)
			}
			if recorded != tries || failures != tries || since < trying || since > trying+ran {
				t.Errorf("the ledger holds %d attempts and %d failures since %s; want %d since %s", recorded, failures, since, tries, trying)
			}
		})
	}
}

// A Retry-After header is obeyed until the last attempt, and no attempt is made after the end of the retry time.
func TestRetries_AskedToWait_NotBeyondTheTime(t *testing.T) {
	b := setup(t)
	p := effect.Policy{Timeout: time.Second, Retries: effect.Retries{InitialInterval: time.Second, MaxInterval: time.Minute, MaxElapsed: 30 * time.Minute}}
	_, err := b.do(call("evt_1", 0), p, "x", fail(busy(time.Hour, false)))
	if wait := b.again(err, effect.TypeTransient).NextRetryDelay(); wait > 30*time.Minute || wait < 29*time.Minute {
		t.Errorf("the wait is %s, want the rest of the half hour", wait)
	}
	b.passes(31 * time.Minute)
	result, err := b.do(call("evt_1", 0), p, "x", fail(busy(time.Hour, false)))
	b.want(result, err, effect.Failed)
}
