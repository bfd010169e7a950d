package effect

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema/ledger"
)

// Standing is the state of an effect in the ledger. Reading the state does not claim the effect.
type Standing = ledger.Grant

// StandingAfter returns the ledger state that a run's result implies.
func StandingAfter(r Result, eventID string) Standing {
	s := Standing{EventID: eventID, Result: r.Value, Error: r.Reason, Round: r.Round}
	switch r.State {
	case Done, AlreadyDone:
		s.State, s.Error = ledger.Done, ""
	case Skipped:
		s.State = ledger.Skipped
	case Compensated:
		s.State = ledger.Compensated
	case Uncertain:
		s.State, s.Class = ledger.Uncertain, ledger.Ambiguous
	case Refused:
		s.State, s.Class = ledger.Failed, ledger.Permanent
	default:
		s.State, s.Class = ledger.Failed, ledger.Fault
	}
	if r.Unanswered {
		s.Result = unansweredResult
	}
	return s
}

// Beyond describes what happens to an effect that starts now if its sink stays down or paused for too long. It returns
// "" if there is no limit. While the sink is down, the retry time of the effect runs; while the sink is paused, it
// stops. In both cases the sink may forget the key of an earlier attempt.
func (p Policy) Beyond(h Holding, c Call, s Standing, now time.Time) string {
	held := map[bool]string{true: "paused", false: "down"}[h.Paused]
	remembers, begun := p.KeyLifetime-s.Age, s.Attempt > 0 && c.Round <= s.Round
	switch keeps := p.KeyLifetime > 0 && s.Attempt > 0 && s.KeepsKey(); {
	case keeps && remembers > 0 && (h.Paused || remembers < p.Retries.MaxElapsed):
		return fmt.Sprintf("if the sink stays %s beyond %s, it will have forgotten the first attempt, and the effect becomes uncertain", held,
			now.Add(remembers).UTC().Format(time.RFC3339))
	case !h.Paused && !begun && p.Retries.MaxElapsed > 0 && (!keeps || remembers > 0):
		return fmt.Sprintf("if the sink stays %s until the last attempt at %s, the run parks with the status dead", held,
			now.Add(p.Retries.MaxElapsed).UTC().Format(time.RFC3339))
	}
	return ""
}

// Forgotten returns an error if the sink has forgotten the key of an earlier attempt, so that a claim would end as
// uncertain. Otherwise it returns nil.
func (p Policy) Forgotten(s Standing) error {
	if p.KeyLifetime == 0 || s.Attempt == 0 || s.Age <= p.KeyLifetime || !s.KeepsKey() {
		return nil
	}
	return Doubt("the first attempt was %s ago and the sink forgets keys after %s: another attempt could repeat the effect", s.Age.Round(time.Minute), p.KeyLifetime)
}

// Foreseen returns the result that a run would get for an effect that returns value and err. It returns an error if
// pawl's own infrastructure failed.
func Foreseen(value any, err error) (Result, error) {
	finish, result, _, encodeErr := outcome{value: value, err: err}.conclude()
	switch {
	case encodeErr != nil:
		return Result{}, encodeErr
	case isInfrastructure(err):
		return Result{}, err
	}
	switch finish.Class {
	case ledger.Exhausted, ledger.Fault, ledger.Transient:
		result.fail(finish.Class)
	}
	if result.State == Done {
		result.Value = finish.Result
	}
	return result, nil
}
