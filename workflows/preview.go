package workflows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/workflows/plan"
)

// Asked is the input of a preview.
type Asked struct {
	In EventInput
	// Action and Decision are the update to preview. Action is "" for a new run.
	Action   string
	Decision DecisionInput
	// ReasonCode, Reason and Waits are the reason and the open effects of the parked run, as stored on its receipt.
	ReasonCode, Reason string
	Waits              activities.Waits
	// Letters requests the text of the e-mails.
	Letters bool
}

// Outlook returns to a preview the results that activities would return to a run, without changing anything.
// *activities.Outlook implements it.
type Outlook interface {
	LoadFacts(context.Context, activities.LoadFactsInput) (activities.LoadFactsResult, error)
	LoadRelay(context.Context, activities.LoadRelayInput) (activities.LoadRelayResult, error)
	// Correct returns the corrections of an object's entries.
	Correct(ctx context.Context, mode, object string, at time.Time) ([]fold.Correction, error)
	// Standings returns the state of effects in the ledger, by key. It omits effects that were never begun.
	Standings(ctx context.Context, keys []string) (map[string]effect.Standing, error)
	ForecastFacts(context.Context, activities.EffectInput[activities.Facts]) (activities.Forecast, error)
	ForecastWithholding(context.Context, activities.EffectInput[activities.Withholding]) (activities.Forecast, error)
	ForecastDue(context.Context, activities.EffectInput[activities.AccountDue]) (activities.Forecast, error)
	ForecastWorkspace(context.Context, activities.EffectInput[activities.Workspace]) (activities.Forecast, error)
	ForecastAlignment(context.Context, activities.EffectInput[activities.WorkspaceRef]) (activities.Forecast, error)
	ForecastEntry(context.Context, activities.EffectInput[activities.Entry]) (activities.Forecast, error)
	ForecastLetter(context.Context, activities.EffectInput[activities.Letter]) (activities.Forecast, error)
	// WriteLetter renders an e-mail, even if it would not be sent.
	WriteLetter(context.Context, activities.EffectInput[activities.Letter]) (activities.WrittenLetter, error)
	ForecastTask(context.Context, activities.EffectInput[activities.Task]) (activities.Forecast, error)
	ForecastRelay(context.Context, activities.EffectInput[activities.Delivery]) (activities.Forecast, error)
	ForecastStep(context.Context, activities.EffectInput[plan.FlowCall]) (activities.Forecast, error)
	ForecastFetch(context.Context, activities.EffectInput[activities.Wanted]) (activities.Forecast, error)
}

// RefusedError means that a run would not accept the decision.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Preview forecasts a run: a parked run after a decision, or a new run. It executes the code of the flow with an engine
// that reads the ledger instead of running activities. The preview therefore plans, parks and compensates in the same
// way as the run.
//
// Preview assumes that every sink responds. If a sink is down or paused, the preview reports its effects as waiting.
// The error is a [*RefusedError] if the run would not accept the decision.
func Preview(ctx context.Context, outlook Outlook, asked Asked) (Previewed, error) {
	p := newPreview(ctx, outlook, asked)
	return p.of(p)
}

// Fold returns the change that a fact would cause. Later previews with the same outlook include the fact.
func Fold(ctx context.Context, outlook Outlook, added fact.Fact) (change fold.Change, err error) {
	folded, err := outlook.ForecastFacts(ctx,
		activities.EffectInput[activities.Facts]{For: activities.Facts{Facts: []fact.Fact{added}}})
	if err == nil {
		err = json.Unmarshal(folded.Value, &change)
	}
	return change, err
}

// preview is the engine of a previewed flow.
type preview struct {
	Asked
	f *flow
	// context is a field because the methods of engine have no context parameter.
	context context.Context
	outlook Outlook
	// parked is set until the preview has reached the present park of the run. Until then, the preview reads the
	// outcomes of effects from the ledger.
	parked bool

	// before holds the states of effects as read from the ledger, and states holds their states after the previewed
	// steps. Neither contains effects that were never begun. known contains the keys of all effects that were read.
	states, before map[string]effect.Standing
	known          map[string]bool
	seen           []*step
	ran            map[string]effect.Result
	// forecasts holds the forecast of each effect that ran.
	forecasts map[string]activities.Forecast
	ended     Previewed
}

func newPreview(ctx context.Context, outlook Outlook, asked Asked) *preview {
	return &preview{
		Asked: asked, f: &flow{in: asked.In, name: asked.In.Flow()}, context: ctx, outlook: outlook,
		parked: asked.Action != "", states: map[string]effect.Standing{}, before: map[string]effect.Standing{},
		known: map[string]bool{},
		ran:   map[string]effect.Result{}, forecasts: map[string]activities.Forecast{},
	}
}

// errParks ends a preview when the run would wait for a person.
var errParks = errors.New("the run parks")

// The method of runs the flow on engine e, which is p or a type that embeds p, and returns the result.
func (p *preview) of(e engine) (Previewed, error) {
	if err := p.rejectIfSettled(); err != nil {
		return Previewed{}, err
	}
	p.f.engine = e
	flows := Flows()
	flow := flows[slices.IndexFunc(flows, func(of Flow) bool { return of.Name == p.f.name })]
	if _, err := flow.begin(p.f); err != nil && !errors.Is(err, errParks) {
		return Previewed{}, err
	}
	p.ended.Effects = []PreviewedEffect{}
	for _, s := range p.seen {
		e := p.effect(s)
		if _, is := s.Input.(activities.Letter); is && p.Letters {
			written, err := p.outlook.WriteLetter(p.context, effectInput[activities.Letter](p.f.call(s), s.Input))
			if err != nil {
				return Previewed{}, fmt.Errorf("preview %s: %w", s.Key, err)
			}
			e.Letter = &written
		}
		p.ended.Effects = append(p.ended.Effects, e)
	}
	var err error
	p.ended.AccessAfter, err = p.accessAfter()
	return p.ended, err
}

// rejectIfSettled rejects a decision about effects that other runs have settled, as
// [activities.Runs.RecordDecision] does.
func (p *preview) rejectIfSettled() error {
	keys := p.Waits.Keys()
	state, err := p.outlook.Standings(p.context, keys)
	if err != nil {
		return err
	}
	if why := activities.DoneMeanwhile(p.In.EventID, keys, state); why != "" {
		return &RefusedError{why}
	}
	return nil
}

// A preview has no time, is never cancelled, and has no details.
func (p *preview) asOf() time.Time          { return time.Time{} }
func (p *preview) pause(time.Duration) bool { return false }
func (p *preview) cancelled() bool          { return false }
func (p *preview) details(string)           {}

// execute returns the results of the activities that are not effects.
func (p *preview) execute(a attempt, result any) (err error) {
	switch in := a.input.(type) {
	case activities.LoadFactsInput:
		into := result.(*activities.LoadFactsResult)
		if *into, err = p.outlook.LoadFacts(p.context, in); err == nil {
			p.loaded(&into.Code, &into.Reason)
		}
		into.Destinations, into.Undecided = plan.Begun(into.Destinations, into.Undecided, p.Waits.Steps)
		if left := p.Waits.Left; left != nil {
			into.Ignored, into.Code, into.Reason = true, left.Code, left.Reason
		}
		return err
	case activities.LoadRelayInput:
		into := result.(*activities.LoadRelayResult)
		if *into, err = p.outlook.LoadRelay(p.context, in); err == nil {
			p.loaded(&into.Code, &into.Reason)
		}
		plan.Relayed(into, p.Waits.Steps)
		return err
	case activities.ReadEffectsInput:
		err := p.readStates(slices.Concat(in.Keys, in.Undos)...)
		*result.(*activities.ReadEffectsResult) = in.Of(p.states)
		return err
	case activities.SkipEffectInput:
		return p.skip(in, result.(*activities.SkipEffectResult))
	case activities.FinishRunInput:
		p.ended.Outcome, p.ended.Reason = in.Status, in.Reason
		return nil
	case activities.RecordDecisionInput, activities.WakeWaitingInput, activities.WithholdEffectsInput:
		return nil
	}
	if a.call.ByHand != nil {
		done := effect.Result{State: effect.Done}
		*result.(*effect.Result) = done
		p.become(a.call.Key, done, p.In.EventID)
		return nil
	}
	return fmt.Errorf("preview of %s: no forecast for activity %q", p.In.EventID, a.name)
}

// loaded restores the reason of a run that parked while loading the event, even if the cause is fixed now. For any
// other run, it clears the reason.
func (p *preview) loaded(code, why *string) {
	switch {
	case !p.parked:
	case len(p.Waits.Steps) > 0:
		*code, *why = "", ""
	default:
		*code, *why = p.ReasonCode, strings.TrimPrefix(p.Reason, p.ReasonCode+": ")
	}
}

// readStates reads the states of effects that were not read before.
func (p *preview) readStates(keys ...string) error {
	unknown := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return p.known[key] })
	if len(unknown) == 0 {
		return nil
	}
	found, err := p.outlook.Standings(p.context, unknown)
	for _, key := range unknown {
		p.known[key] = true
	}
	maps.Copy(p.states, found)
	maps.Copy(p.before, found)
	return err
}

func (p *preview) attemptAll(steps []*step) error { return p.each(steps, p.attempt) }

func (p *preview) each(steps []*step, attempt func(*step) error) error {
	open := p.f.toTry(steps)
	if err := p.readStates(keysOf(open)...); err != nil { // one query for all steps
		return err
	}
	for _, s := range open {
		if !slices.ContainsFunc(p.seen, func(o *step) bool { return o.Key == s.Key }) {
			p.seen = append(p.seen, s)
		}
		if err := attempt(s); err != nil {
			return err
		}
	}
	return nil
}

func (p *preview) attempt(s *step) error {
	state, known := p.states[s.Key]
	switch {
	case p.parked && !known:
		s.result = effect.Result{State: effect.Failed, Reason: "not begun"}
		return nil
	case p.parked && state.Claimable(0), p.parked && state.UnderWay():
		s.begun, s.result = true,
			effect.Result{State: effect.Failed, Round: state.Round, Reason: "not done when the run parked"}
		return nil
	}
	s.begun = true
	switch {
	case state.UnderWay():
		// Another run executes the effect, and this run waits for the outcome.
		s.result = effect.Result{State: effect.AlreadyDone, By: state.EventID}
		return nil
	case p.parked && p.reached(func(o activities.Step) bool { return o.Key == s.Key && o.Skipped }):
		// A skipped step has no follow-up step.
		s.skipped, s.result = true, effect.Result{State: effect.Skipped, Reason: state.Error}
		return nil
	case known && !state.Claimable(s.round):
		s.result = effect.Recorded(state, p.In.EventID)
		return nil
	}
	forecast, err := p.forecast(s)
	if err != nil {
		return err
	}
	result := forecast.Result
	s.result = result
	s.result.Round = max(result.Round, state.Round)
	p.forecasts[s.Key], p.ran[s.Key] = forecast, result
	p.become(s.Key, s.result, p.In.EventID)
	if result.State == effect.Done && s.Compensates != "" {
		p.become(s.Compensates, effect.Result{State: effect.Compensated}, p.In.EventID)
	}
	p.ended.Asks = p.ended.Asks || s.Sink == plan.SinkStripe
	return nil
}

func (p *preview) forecast(s *step) (activities.Forecast, error) {
	c := p.f.call(s)
	c.After = slices.DeleteFunc(slices.Clone(c.After), func(key string) bool { // the preview has settled it
		return p.states[key].Settled()
	})
	forecast, err := executors[s.Kind].forecast(p.context, p.outlook, c, s.Input)
	if err != nil {
		return forecast, fmt.Errorf("preview %s: %w", s.Key, err)
	}
	return forecast, nil
}

func (p *preview) become(key string, r effect.Result, eventID string) {
	p.states[key], p.known[key] = effect.StandingAfter(r, eventID), true
}

// skip mirrors [activities.Runs.SkipEffect].
func (p *preview) skip(in activities.SkipEffectInput, result *activities.SkipEffectResult) error {
	if err := p.readStates(in.Effect.Key); err != nil {
		return err
	}
	if s := p.states[in.Effect.Key]; s.Settled() {
		met := effect.Recorded(s, in.Effect.EventID)
		result.Met = &met
		return nil
	}
	p.become(in.Effect.Key, effect.Result{State: effect.Skipped, Reason: in.Reason}, in.Effect.EventID)
	return nil
}

// waitForPerson repeats the decisions that led to the present park, applies the previewed decision there, and ends
// the preview at the next park.
func (p *preview) waitForPerson(status string, why reason) (decision, error) {
	p.ended.Outcome, p.ended.Reason = status, why.String()
	before := func(action string) (decision, error) {
		return decision{action: action, input: DecisionInput{Actor: "a person", Reason: "decided before"}}, nil
	}
	review := len(p.f.unsettled()) == 0
	switch {
	case !p.parked:
		return decision{}, errParks
	case review && len(p.f.steps) > 0 &&
		p.reached(func(s activities.Step) bool { return s.Kind == plan.CloseReview.Name }):
		return before(UpdateApprove)
	case p.Waits.Undoing && !p.f.undone:
		return before(UpdateCompensate)
	}
	if err := cmp.Or(p.Decision.check(), p.f.checkAllowed(p.Action, p.Decision)); err != nil {
		refused, _ := errors.AsType[*temporal.ApplicationError](err)
		return decision{}, &RefusedError{refused.Message()}
	}
	p.parked, p.ended = false, Previewed{}
	return decision{request: "preview", action: p.Action, input: p.Decision}, nil
}

// reached reports whether the parked run has begun a step for which the function returns true.
func (p *preview) reached(step func(activities.Step) bool) bool {
	return slices.ContainsFunc(p.Waits.Steps, step)
}
