package workflows

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Will is the forecast for an effect.
type Will string

// Forecasts of an effect.
const (
	WillStay           Will = "stays"               // it is done, by this event or another, and is not repeated
	WillRun            Will = "runs"                // it is done now
	WillRunLater       Will = "runs_later"          // it waits for its sink or its state, and is then done
	WillAsk            Will = "asks"                // it may have happened; a person decides
	WillRefuse         Will = "refused"             // its sink refuses it, with the reason
	WillNotBeDone      Will = "not_done"            // it is not done, with the reason
	WillTakeBack       Will = "taken_back"          // it is done, or may be, and is compensated
	WillRunAndTakeBack Will = "runs_and_taken_back" // it is done now and compensated, because another effect is refused
	WillLeave          Will = "left"                // it is obsolete, and recorded as skipped
	WillSkip           Will = "skips"               // it is skipped by the decision
	WillMark           Will = "marked"              // it is marked as done by the decision
	WasSkipped         Will = "skipped"             // it is skipped, and stays so
	WasTakenBack       Will = "was_taken_back"      // it was compensated, and stays so
	// WillWait: nothing starts it now. It waits for the cause of the park, or another run is executing it.
	WillWait Will = "waits"
)

// String returns the label for people.
func (w Will) String() string {
	return map[Will]string{
		WillStay: "done, stays", WillRun: "will run", WillRunLater: "will wait, then run",
		WillAsk: "may have happened: needs a decision", WillRefuse: "refused", WillNotBeDone: "not done",
		WillTakeBack: "will be compensated", WillRunAndTakeBack: "will run, then be compensated",
		WillLeave: "obsolete, will be skipped",
		WillSkip:  "will be skipped", WillMark: "will be marked done", WasSkipped: "skipped, stays",
		WasTakenBack: "compensated, stays", WillWait: "waits",
	}[w]
}

// Wills lists all forecasts, in the order of interest.
func Wills() []Will {
	return []Will{WillStay, WillRun, WillRunLater, WillAsk, WillTakeBack, WillRunAndTakeBack, WasSkipped, WillSkip,
		WillMark, WillLeave, WasTakenBack, WillRefuse, WillNotBeDone, WillWait}
}

// PreviewedEffect is the forecast for one effect.
type PreviewedEffect struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	Sink string `json:"sink"`
	Will Will   `json:"will"`
	// Why is the reason why it is refused, not done or obsolete, or a remark.
	Why string `json:"why,omitempty"`
	// WaitsFor is the reason why it waits before the first attempt: its sink is down or paused, or the state that an
	// e-mail reports has to settle. It is "" for an effect that does not wait.
	WaitsFor string `json:"waits_for,omitempty"`
	// By is the event that executed it, if it was another event.
	By string `json:"by,omitempty"`
	// Undo is the kind of effect that would compensate it. Undoes is the key of the effect that this one compensates.
	Undo   string `json:"undo,omitempty"`
	Undoes string `json:"undoes,omitempty"`
	// Amount is the amount of an entry in minor units of Currency, negative for outgoing money. It is nil for any
	// other effect.
	Amount   *int64 `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// Letter is the e-mail that it sends, if requested.
	Letter *activities.WrittenLetter `json:"letter,omitempty"`
}

// Previewed is the result of a preview: the effects in order of execution, and the status of the receipt.
type Previewed struct {
	Effects []PreviewedEffect `json:"effects"`
	// Outcome is the resulting status of the receipt, whether the run ends or parks. Reason is its reason.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// AccessAfter is the access of the account after the effects. It is nil if none of them changes facts.
	AccessAfter *fold.Access `json:"access_after,omitempty"`
	// Asks is set if the provider is queried first: its answer may change the following effects.
	Asks bool `json:"asks_provider,omitempty"`
}

// Parks reports whether the run parks again.
func (p Previewed) Parks() bool { return p.Outcome == needsReview || p.Outcome == dead }

// accessAfter returns the access after the last effect that changes facts. It returns nil if no such effect runs.
func (p *preview) accessAfter() (*fold.Access, error) {
	for _, s := range slices.Backward(p.seen) {
		forecast, ran := p.forecasts[s.key]
		changes := slices.Contains([]string{applyFacts.Name, withholdGrant.Name, applyDue.Name}, s.kind)
		if !ran || !changes || len(forecast.Value) == 0 {
			continue
		}
		var change fold.Change
		if err := json.Unmarshal(forecast.Value, &change); err != nil {
			return nil, fmt.Errorf("read the forecast of %s: %w", s.key, err)
		}
		if access := change.After.Access; access.Account != "" {
			return &access, nil
		}
	}
	return nil, nil
}

func (p *preview) effect(s *step) PreviewedEffect {
	e := PreviewedEffect{Key: s.key, Kind: s.kind, Sink: s.sink, Undoes: s.compensates,
		WaitsFor: p.forecasts[s.key].WaitsFor}
	if s.undo != nil {
		e.Undo = s.undo(s.result).kind
	}
	if entry := s.work.entry(); entry != nil {
		amount := entry.Net()
		e.Amount, e.Currency = &amount, entry.Currency
	}
	before, now := p.before[s.key], p.states[s.key]
	is := func(of effect.Standing, state effect.State) bool {
		return of.State != "" && !of.UnderWay() && effect.Recorded(of, "").State == state
	}
	result, ran := p.ran[s.key]
	switch {
	case ran && is(now, effect.Compensated):
		e.Will = WillRunAndTakeBack
	case ran && result.State == effect.Skipped:
		e.Will, e.Why = WillLeave, result.Reason
	case ran && result.State == effect.Done:
		e.Will = WillRun
		if e.WaitsFor != "" {
			e.Will = WillRunLater
		}
		e.Why = p.remark(s, is(before, effect.Uncertain))
	case ran && result.State == effect.Uncertain:
		e.Will, e.Why = WillAsk, result.Reason
	case ran:
		e.Will, e.Why = notDone(result)
	case now.State == "":
		e.Will, e.Why = WillWait, "not begun"
	case now.UnderWay():
		e.Will, e.Why = WillWait, "another run is executing it"
	case is(now, effect.Compensated) && !is(before, effect.Compensated):
		e.Will = WillTakeBack
	case is(now, effect.Compensated):
		e.Will = WasTakenBack
	case is(now, effect.Skipped) && !is(before, effect.Skipped):
		e.Will = WillSkip
	case is(now, effect.Skipped):
		e.Will, e.Why = WasSkipped, now.Error
	case is(now, effect.AlreadyDone) && !is(before, effect.AlreadyDone):
		e.Will = WillMark
	case is(now, effect.AlreadyDone):
		e.Will, e.By = WillStay, s.result.By
	case is(now, effect.Uncertain):
		e.Will, e.Why = WillAsk, effect.Recorded(now, "").Reason
	case now.Claimable(0): // its run keeps trying
		e.Will, e.Why = WillWait, effect.Recorded(now, "").Reason
	default:
		e.Will, e.Why = notDone(effect.Recorded(now, ""))
	}
	return e
}

// remark returns a remark about an effect that runs.
func (p *preview) remark(s *step, inDoubt bool) string {
	ask, asks := s.work.(work[activities.Wanted])
	switch {
	case asks && ask.input(p.f.call(s)).For.Tag != "":
		return "will fetch the object from Stripe first: the following effects depend on it and are not known yet"
	case s.sink == SinkStripe:
		return "will fetch the object from Stripe first: the following effects may change"
	case inDoubt:
		return "it may have happened before, and is executed again"
	case p.forecasts[s.key].Asks:
		return "will fetch the settlement from Stripe first"
	}
	return ""
}

// notDone returns the forecast for an effect that is not done: refused by its sink or not, with the reason.
func notDone(r effect.Result) (Will, string) {
	if r.State == effect.Refused {
		return WillRefuse, r.Reason
	}
	return WillNotBeDone, r.Reason
}
