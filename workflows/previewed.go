package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// Will says what would happen to an effect.
type Will string

// The fates of an effect.
const (
	WillStay           Will = "stays"               // it is done, by this event or another, and is not done again
	WillRun            Will = "runs"                // it is done now
	WillRunLater       Will = "runs_later"          // it waits for its sink, or for its state to settle, and is then done
	WillAsk            Will = "asks"                // it may have happened, and a person is asked
	WillRefuse         Will = "refused"             // its sink refuses it, with the reason
	WillNotBeDone      Will = "not_done"            // it is not done, with the reason
	WillTakeBack       Will = "taken_back"          // it is done, or may be, and is taken back
	WillRunAndTakeBack Will = "runs_and_taken_back" // it is done now, beside one that is refused, and taken back
	WillLeave          Will = "left"                // it is found not to be wanted, and recorded as skipped
	WillSkip           Will = "skips"               // it is skipped by the decision
	WillMark           Will = "marked"              // it is marked as done by the decision
	WasSkipped         Will = "skipped"             // it is skipped, and stays so
	WasTakenBack       Will = "was_taken_back"      // it was taken back, and stays so
	// WillWait: nothing begins it now. It is not done, and waits for what the run parks for; or another run is at it.
	WillWait Will = "waits"
)

// String says it to a person.
func (w Will) String() string {
	return map[Will]string{
		WillStay: "done, stays", WillRun: "will run", WillRunLater: "will wait, then run",
		WillAsk: "may have happened: will ask", WillRefuse: "refused", WillNotBeDone: "not done",
		WillTakeBack: "will be taken back", WillRunAndTakeBack: "will run, and be taken back",
		WillLeave: "will be left",
		WillSkip:  "will be skipped", WillMark: "will be marked done", WasSkipped: "skipped, stays",
		WasTakenBack: "taken back, stays", WillWait: "waits",
	}[w]
}

// Wills are all of them, in the order of interest.
func Wills() []Will {
	return []Will{WillStay, WillRun, WillRunLater, WillAsk, WillTakeBack, WillRunAndTakeBack, WasSkipped, WillSkip,
		WillMark, WillLeave, WasTakenBack, WillRefuse, WillNotBeDone, WillWait}
}

// PreviewedEffect is what would happen to one effect.
type PreviewedEffect struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	Sink string `json:"sink"`
	Will Will   `json:"will"`
	// Why says why it is refused, not done or left, and what else there is to know.
	Why string `json:"why,omitempty"`
	// WaitsFor says why it waits before it is tried: its sink is out or paused, or the state that a letter tells has to
	// settle. It is "" for an effect that does not wait.
	WaitsFor string `json:"waits_for,omitempty"`
	// By is the event that has done it, where that is another one.
	By string `json:"by,omitempty"`
	// Undo is the kind of effect that would take it back; Undoes is the key of the effect that this one takes back.
	Undo   string `json:"undo,omitempty"`
	Undoes string `json:"undoes,omitempty"`
	// Amount is an entry's, in minor units of Currency, negative for money that goes out; nil for any other effect.
	Amount   *int64 `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// Letter is the letter that it sends, where that is asked for; else nil.
	Letter *activities.WrittenLetter `json:"letter,omitempty"`
}

// Previewed is what would happen: to the effects, in the order in which the run comes to them, and to the receipt.
type Previewed struct {
	Effects []PreviewedEffect `json:"effects"`
	// Outcome is the receipt's status then: of a run that ends, or of one that parks. Reason says why.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// Asks is set where the provider is asked first: what follows may change with its answer.
	Asks bool `json:"asks_provider,omitempty"`
}

// Parks reports whether the run parks again.
func (p Previewed) Parks() bool { return p.Outcome == needsReview || p.Outcome == dead }

func (p *preview) effect(s *step) PreviewedEffect {
	e := PreviewedEffect{Key: s.key, Kind: s.kind, Sink: s.sink, Undoes: s.compensates,
		WaitsFor: p.foreseen[s.key].WaitsFor}
	if s.undo != nil {
		e.Undo = s.undo(s.result).kind
	}
	if entry := s.work.entry(); entry != nil {
		amount := entry.Net()
		e.Amount, e.Currency = &amount, entry.Currency
	}
	before, now := p.before[s.key], p.stands[s.key]
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
		e.Why = p.besides(s, is(before, effect.Uncertain))
	case ran && result.State == effect.Uncertain:
		e.Will, e.Why = WillAsk, result.Reason
	case ran:
		e.Will, e.Why = notDone(result)
	case now.State == "":
		e.Will, e.Why = WillWait, "not begun"
	case now.UnderWay():
		e.Will, e.Why = WillWait, "another run is doing it"
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
	case now.Claimable(0): // it goes on trying
		e.Will, e.Why = WillWait, effect.Recorded(now, "").Reason
	default:
		e.Will, e.Why = notDone(effect.Recorded(now, ""))
	}
	return e
}

// besides says what else there is to know of an effect that runs.
func (p *preview) besides(s *step, inDoubt bool) string {
	ask, asks := s.work.(work[activities.Wanted])
	switch {
	case asks && ask.input(p.f.call(s)).For.Tag != "":
		return "will ask Stripe first: all that follows comes of its answer, and is not known before"
	case s.sink == SinkStripe:
		return "will ask Stripe first: what follows may change with its answer"
	case inDoubt:
		return "it may have happened, and is done again"
	case p.foreseen[s.key].Asks:
		return "will ask Stripe first how the money has settled"
	}
	return ""
}

// notDone says of an effect that is not done whether its sink refuses it, and why.
func notDone(r effect.Result) (Will, string) {
	if r.State == effect.Refused {
		return WillRefuse, r.Reason
	}
	return WillNotBeDone, r.Reason
}
