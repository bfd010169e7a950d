package workflows

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/workflows/plan"
)

// Will is the forecast for an effect.
type Will string

// Forecasts of an effect.
const (
	WillStay           Will = "stays"               // the effect is already done and is not repeated
	WillRun            Will = "runs"                // the effect is done now
	WillRunLater       Will = "runs_later"          // the effect waits for its sink or for a state, and is then done
	WillAsk            Will = "asks"                // the effect may have happened; a person must decide
	WillRefuse         Will = "refused"             // the sink refuses the effect; Reason is the reason
	WillNotBeDone      Will = "not_done"            // the effect is not done; Reason is the reason
	WillTakeBack       Will = "taken_back"          // the effect is done or may have been done, and is compensated
	WillRunAndTakeBack Will = "runs_and_taken_back" // the effect is done now, and then compensated
	WillLeave          Will = "left"                // the effect is obsolete, and is recorded as skipped
	WillSkip           Will = "skips"               // the decision skips the effect
	WillMark           Will = "marked"              // the decision marks the effect as done
	WasSkipped         Will = "skipped"             // the effect was skipped, and stays skipped
	WasTakenBack       Will = "was_taken_back"      // the effect was compensated, and stays compensated
	// WillWait: the effect is not started now. The run is parked, or another run is executing the effect.
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

// Wills returns all forecasts, the most important first.
func Wills() []Will {
	return []Will{WillStay, WillRun, WillRunLater, WillAsk, WillTakeBack, WillRunAndTakeBack, WasSkipped, WillSkip,
		WillMark, WillLeave, WasTakenBack, WillRefuse, WillNotBeDone, WillWait}
}

// PreviewedEffect is the forecast for one effect.
type PreviewedEffect struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	Sink string `json:"sink"`
	Will Will   `json:"forecast"`
	// Reason is the reason why the effect is refused, not done or obsolete, or a remark.
	Reason string `json:"reason,omitempty"`
	// WaitsFor is the reason why the effect waits before its first attempt: its sink is down or paused, or the state
	// that an e-mail reports may still change. It is "" for an effect that does not wait.
	WaitsFor string `json:"waits_for,omitempty"`
	// By is the ID of the event that executed the effect, if it was another event.
	By string `json:"by,omitempty"`
	// Undo is the kind of effect that would compensate this effect. Undoes is the key of the effect that this effect
	// compensates.
	Undo   string `json:"undo,omitempty"`
	Undoes string `json:"undoes,omitempty"`
	// Amount is the amount of an entry in minor units of Currency, negative for outgoing money. It is nil for any
	// other effect.
	Amount   *int64 `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// Letter is the e-mail that the effect sends, if the caller requested the text of e-mails.
	Letter *activities.WrittenLetter `json:"letter,omitempty"`
}

// Previewed is the result of a preview: the effects in order of execution, and the status of the receipt.
type Previewed struct {
	Effects []PreviewedEffect `json:"effects"`
	// Outcome is the status that the receipt gets when the run ends or parks. Reason is the reason of that status.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// AccessAfter is the access of the account after the effects. It is nil if none of them changes facts.
	AccessAfter *fold.Access `json:"access_after,omitempty"`
	// Asks is set if the run first fetches an object from the provider, which may change the following effects.
	Asks bool `json:"asks_provider,omitempty"`
}

// Parks reports whether the run parks again.
func (p Previewed) Parks() bool { return p.Outcome == needsReview || p.Outcome == dead }

// accessAfter returns the access after the last effect that changes facts. It returns nil if no such effect runs.
func (p *preview) accessAfter() (*fold.Access, error) {
	for _, s := range slices.Backward(p.seen) {
		forecast, ran := p.forecasts[s.Key]
		changes := slices.Contains([]string{plan.ApplyFacts.Name, plan.WithholdGrant.Name, plan.ApplyDue.Name}, s.Kind)
		if !ran || !changes || len(forecast.Value) == 0 {
			continue
		}
		var change fold.Change
		if err := json.Unmarshal(forecast.Value, &change); err != nil {
			return nil, fmt.Errorf("decode the forecast for effect %s: %w", s.Key, err)
		}
		if access := change.After.Access; access.Account != "" {
			return &access, nil
		}
	}
	return nil, nil
}

func (p *preview) effect(s *step) PreviewedEffect {
	e := PreviewedEffect{Key: s.Key, Kind: s.Kind, Sink: s.Sink, Undoes: s.Compensates,
		WaitsFor: p.forecasts[s.Key].WaitsFor}
	if s.Undo != nil {
		e.Undo = s.Undo(s.result).Kind
	}
	if entry := s.Entry(); entry != nil {
		amount := entry.Net()
		e.Amount, e.Currency = &amount, entry.Currency
	}
	before, now := p.before[s.Key], p.states[s.Key]
	is := func(of effect.Standing, state effect.State) bool {
		return of.State != "" && !of.UnderWay() && effect.Recorded(of, "").State == state
	}
	result, ran := p.ran[s.Key]
	switch {
	case ran && is(now, effect.Compensated):
		e.Will = WillRunAndTakeBack
	case ran && result.State == effect.Skipped:
		e.Will, e.Reason = WillLeave, result.Reason
	case ran && result.State == effect.Done:
		e.Will = WillRun
		if e.WaitsFor != "" {
			e.Will = WillRunLater
		}
		e.Reason = p.remark(s, is(before, effect.Uncertain))
	case ran && result.State == effect.Uncertain:
		e.Will, e.Reason = WillAsk, result.Reason
	case ran:
		e.Will, e.Reason = notDone(result)
	case now.State == "":
		e.Will, e.Reason = WillWait, "not begun"
	case now.UnderWay():
		e.Will, e.Reason = WillWait, "another run is executing it"
	case is(now, effect.Compensated) && !is(before, effect.Compensated):
		e.Will = WillTakeBack
	case is(now, effect.Compensated):
		e.Will = WasTakenBack
	case is(now, effect.Skipped) && !is(before, effect.Skipped):
		e.Will = WillSkip
	case is(now, effect.Skipped):
		e.Will, e.Reason = WasSkipped, now.Error
	case is(now, effect.AlreadyDone) && !is(before, effect.AlreadyDone):
		e.Will = WillMark
	case is(now, effect.AlreadyDone):
		e.Will, e.By = WillStay, s.result.By
	case is(now, effect.Uncertain):
		e.Will, e.Reason = WillAsk, effect.Recorded(now, "").Reason
	case now.Claimable(0): // its run retries it
		e.Will, e.Reason = WillWait, effect.Recorded(now, "").Reason
	default:
		e.Will, e.Reason = notDone(effect.Recorded(now, ""))
	}
	return e
}

// remark returns a remark about an effect that runs.
func (p *preview) remark(s *step, inDoubt bool) string {
	wanted, fetches := s.Input.(activities.Wanted)
	switch {
	case fetches && wanted.Tag != "":
		return "will fetch the object from Stripe first: the following effects depend on it and are not known yet"
	case s.Sink == plan.SinkStripe:
		return "will fetch the object from Stripe first: the following effects may change"
	case inDoubt:
		return "it may have happened before, and is executed again"
	case p.forecasts[s.Key].Asks:
		return "will fetch the settlement from Stripe first"
	}
	return ""
}

// notDone returns the forecast for an effect that is not done, and the reason. The forecast is WillRefuse if the sink
// refused the effect.
func notDone(r effect.Result) (Will, string) {
	if r.State == effect.Refused {
		return WillRefuse, r.Reason
	}
	return WillNotBeDone, r.Reason
}
