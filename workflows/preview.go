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
	"github.com/pawlhq/pawl/schema/billing"
)

// Asked is the question that a preview answers.
type Asked struct {
	In EventInput
	// Action and Decision are the update that a parked run would get. Action is "" for a run that begins anew.
	Action   string
	Decision DecisionInput
	// ReasonCode and Reason say why it is parked, and Waits names the effects that it waits for, as its receipt has
	// them.
	ReasonCode, Reason string
	Waits              activities.Waits
	// Letters asks for the letters as they would go out, too.
	Letters bool
}

// Outlook answers a preview as activities answer a run. It changes nothing. An *activities.Outlook is one.
type Outlook interface {
	LoadFacts(context.Context, activities.LoadFactsInput) (activities.LoadFactsResult, error)
	LoadRelay(context.Context, activities.LoadRelayInput) (activities.LoadRelayResult, error)
	// Correct answers the question about an object's entry, and returns what follows.
	Correct(ctx context.Context, mode, object string, at time.Time) ([]billing.Correction, error)
	// Standings says how effects stand in the ledger, by key; one that was never begun is not in it.
	Standings(ctx context.Context, keys []string) (map[string]effect.Standing, error)
	ForecastFacts(context.Context, activities.EffectInput[activities.Facts]) (activities.Forecast, error)
	ForecastWithholding(context.Context, activities.EffectInput[activities.Withholding]) (activities.Forecast, error)
	ForecastDue(context.Context, activities.EffectInput[activities.AccountDue]) (activities.Forecast, error)
	ForecastWorkspace(context.Context, activities.EffectInput[activities.Workspace]) (activities.Forecast, error)
	ForecastAlignment(context.Context, activities.EffectInput[activities.WorkspaceRef]) (activities.Forecast, error)
	ForecastEntry(context.Context, activities.EffectInput[activities.Entry]) (activities.Forecast, error)
	ForecastLetter(context.Context, activities.EffectInput[activities.Letter]) (activities.Forecast, error)
	// WriteLetter writes a letter as it would go out, wanted or not.
	WriteLetter(context.Context, activities.EffectInput[activities.Letter]) (activities.WrittenLetter, error)
	ForecastTask(context.Context, activities.EffectInput[activities.Task]) (activities.Forecast, error)
	ForecastRelay(context.Context, activities.EffectInput[activities.Delivery]) (activities.Forecast, error)
	ForecastFetch(context.Context, activities.EffectInput[activities.Wanted]) (activities.Forecast, error)
}

// RefusedError says that a run would not take a decision.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Preview says what a run would do: a parked one that is told a decision, or a new one. The flow itself runs here, on
// an engine that asks the ledger instead of running activities. So it plans, settles, parks and takes back as the run
// would.
//
// It assumes that every sink answers. An effect whose sink is out or paused now says that it waits. The error is a
// [*RefusedError] if the run would not take the decision.
func Preview(ctx context.Context, outlook Outlook, asked Asked) (Previewed, error) {
	p := newPreview(ctx, outlook, asked)
	return p.of(p)
}

// Fold returns the change that a fact would make. A later preview with the same outlook finds the fact folded.
func Fold(ctx context.Context, outlook Outlook, fact billing.Fact) (change billing.Change, err error) {
	folded, err := outlook.ForecastFacts(ctx,
		activities.EffectInput[activities.Facts]{For: activities.Facts{Facts: []billing.Fact{fact}}})
	if err == nil {
		err = json.Unmarshal(folded.Value, &change)
	}
	return change, err
}

// preview is the engine of a flow that is previewed.
type preview struct {
	Asked
	f *flow
	// context is kept here since the flow has one of another kind.
	context context.Context
	outlook Outlook
	// parked is set until the run has come to its present park. The ledger has the outcomes of the effects before that.
	parked bool

	// before is how effects stood when they were read, and stands how they stand now, after what the run has done. An
	// effect that was never begun is in neither; known has the keys of all that were read.
	stands, before map[string]effect.Standing
	known          map[string]bool
	seen           []*step
	ran            map[string]effect.Result
	// foreseen is the forecast of each effect that ran.
	foreseen map[string]activities.Forecast
	ended    Previewed
}

func newPreview(ctx context.Context, outlook Outlook, asked Asked) *preview {
	return &preview{
		Asked: asked, f: &flow{in: asked.In, name: asked.In.Flow()}, context: ctx, outlook: outlook,
		parked: asked.Action != "", stands: map[string]effect.Standing{}, before: map[string]effect.Standing{},
		known: map[string]bool{},
		ran:   map[string]effect.Result{}, foreseen: map[string]activities.Forecast{},
	}
}

// errParks ends a preview when the run waits for a person.
var errParks = errors.New("the run parks")

// of runs the flow on an engine, the preview itself or one that embeds it, and returns the result.
func (p *preview) of(e engine) (Previewed, error) {
	if err := p.tooLate(); err != nil {
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
		if letter, is := s.work.(work[activities.Letter]); is && p.Letters {
			written, err := p.outlook.WriteLetter(p.context, letter.input(p.f.call(s)))
			if err != nil {
				return Previewed{}, fmt.Errorf("preview %s: %w", s.key, err)
			}
			e.Letter = &written
		}
		p.ended.Effects = append(p.ended.Effects, e)
	}
	return p.ended, nil
}

// tooLate refuses a decision about a run whose effects others have settled, as [activities.Runs.RecordDecision] does.
func (p *preview) tooLate() error {
	keys := p.Waits.Keys()
	stands, err := p.outlook.Standings(p.context, keys)
	if err != nil {
		return err
	}
	if why := activities.DoneMeanwhile(p.In.EventID, keys, stands); why != "" {
		return &RefusedError{why}
	}
	return nil
}

// A preview is of no time, nobody cancels it, and nobody looks at it.
func (p *preview) asOf() time.Time          { return time.Time{} }
func (p *preview) pause(time.Duration) bool { return false }
func (p *preview) cancelled() bool          { return false }
func (p *preview) details(string)           {}

// execute answers what a run asks its activities, effects aside.
func (p *preview) execute(a attempt, result any) (err error) {
	switch in := a.input.(type) {
	case activities.LoadFactsInput:
		into := result.(*activities.LoadFactsResult)
		if *into, err = p.outlook.LoadFacts(p.context, in); err == nil {
			p.loaded(&into.Code, &into.Reason)
		}
		if left := p.Waits.Left; left != nil {
			into.Ignored, into.Code, into.Reason = true, left.Code, left.Why
		}
		return err
	case activities.LoadRelayInput:
		into := result.(*activities.LoadRelayResult)
		if *into, err = p.outlook.LoadRelay(p.context, in); err == nil {
			p.loaded(&into.Code, &into.Reason)
		}
		return err
	case activities.ReadEffectsInput:
		err := p.know(slices.Concat(in.Keys, in.Undos)...)
		*result.(*activities.ReadEffectsResult) = in.Of(p.stands)
		return err
	case activities.SkipEffectInput:
		return p.skip(in, result.(*activities.SkipEffectResult))
	case activities.FinishRunInput:
		p.ended.Outcome, p.ended.Reason = in.Status, in.Reason
		return nil
	case activities.RecordDecisionInput, activities.WakeWaitingInput:
		return nil
	}
	if a.call.ByHand != nil {
		done := effect.Result{State: effect.Done}
		*result.(*effect.Result) = done
		p.become(a.call.Key, done, p.In.EventID)
		return nil
	}
	return fmt.Errorf("preview of %s: nothing says what %q would come to", p.In.EventID, a.name)
}

// loaded restores the reason of a park at load, even if its cause is mended by now. A run that has come
// further found none.
func (p *preview) loaded(code, why *string) {
	switch {
	case !p.parked:
	case len(p.Waits.Steps) > 0:
		*code, *why = "", ""
	default:
		*code, *why = p.ReasonCode, strings.TrimPrefix(p.Reason, p.ReasonCode+": ")
	}
}

// know reads how effects stand that nobody has asked about before.
func (p *preview) know(keys ...string) error {
	unknown := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return p.known[key] })
	if len(unknown) == 0 {
		return nil
	}
	found, err := p.outlook.Standings(p.context, unknown)
	for _, key := range unknown {
		p.known[key] = true
	}
	maps.Copy(p.stands, found)
	maps.Copy(p.before, found)
	return err
}

func (p *preview) attemptAll(steps []*step) error { return p.each(steps, p.attempt) }

func (p *preview) each(steps []*step, attempt func(*step) error) error {
	open := p.f.toTry(steps)
	if err := p.know(keysOf(open)...); err != nil { // one question for all
		return err
	}
	for _, s := range open {
		if !slices.ContainsFunc(p.seen, func(o *step) bool { return o.key == s.key }) {
			p.seen = append(p.seen, s)
		}
		if err := attempt(s); err != nil {
			return err
		}
	}
	return nil
}

func (p *preview) attempt(s *step) error {
	stands, known := p.stands[s.key]
	switch {
	case p.parked && !known:
		s.result = effect.Result{State: effect.Failed, Reason: "not begun"}
		return nil
	case p.parked && stands.Claimable(0), p.parked && stands.UnderWay():
		s.begun, s.result = true,
			effect.Result{State: effect.Failed, Round: stands.Round, Reason: "not done when the run parked"}
		return nil
	}
	s.begun = true
	switch {
	case stands.UnderWay():
		// Another run does it, and this one waits for that.
		s.result = effect.Result{State: effect.AlreadyDone, By: stands.EventID}
		return nil
	case p.parked && p.cameTo(func(o activities.Step) bool { return o.Key == s.key && o.Skipped }):
		// The run was told so, and asks for nothing that would follow.
		s.skipped, s.result = true, effect.Result{State: effect.Skipped, Reason: stands.Error}
		return nil
	case known && !stands.Claimable(s.round):
		s.result = effect.Recorded(stands, p.In.EventID)
		return nil
	}
	forecast, err := p.forecast(s)
	if err != nil {
		return err
	}
	result := forecast.Result
	s.result = result
	s.result.Round = max(result.Round, stands.Round)
	p.foreseen[s.key], p.ran[s.key] = forecast, result
	p.become(s.key, s.result, p.In.EventID)
	if result.State == effect.Done && s.compensates != "" {
		p.become(s.compensates, effect.Result{State: effect.Compensated}, p.In.EventID)
	}
	p.ended.Asks = p.ended.Asks || s.sink == SinkStripe
	return nil
}

func (p *preview) forecast(s *step) (activities.Forecast, error) {
	c := p.f.call(s)
	c.After = slices.DeleteFunc(slices.Clone(c.After), func(key string) bool { // what this run settles first
		return p.stands[key].Settled()
	})
	forecast, err := s.work.forecast(p.context, p.outlook, c)
	if err != nil {
		return forecast, fmt.Errorf("preview %s: %w", s.key, err)
	}
	return forecast, nil
}

func (p *preview) become(key string, r effect.Result, eventID string) {
	p.stands[key], p.known[key] = effect.StandingAfter(r, eventID), true
}

// skip is what [activities.Runs.SkipEffect] does.
func (p *preview) skip(in activities.SkipEffectInput, result *activities.SkipEffectResult) error {
	if err := p.know(in.Effect.Key); err != nil {
		return err
	}
	if s := p.stands[in.Effect.Key]; s.Settled() {
		met := effect.Recorded(s, in.Effect.EventID)
		result.Met = &met
		return nil
	}
	p.become(in.Effect.Key, effect.Result{State: effect.Skipped, Reason: in.Reason}, in.Effect.EventID)
	return nil
}

// waitForPerson repeats the decisions that brought the run to its present park, gives the asked one there, and ends
// the preview at the next park.
func (p *preview) waitForPerson(status string, why reason) (decision, error) {
	p.ended.Outcome, p.ended.Reason = status, why.String()
	before := func(action string) (decision, error) {
		return decision{action: action, input: DecisionInput{Who: "a person", Why: "decided before"}}, nil
	}
	review := len(p.f.unsettled()) == 0
	switch {
	case !p.parked:
		return decision{}, errParks
	case review && len(p.f.steps) > 0 && p.cameTo(func(s activities.Step) bool { return s.Kind == closeReview.Name }):
		return before(UpdateApprove)
	case p.Waits.Undoing && !p.f.undone:
		return before(UpdateCompensate)
	}
	if err := cmp.Or(p.Decision.check(), p.f.mayDecide(p.Action, p.Decision)); err != nil {
		refused, _ := errors.AsType[*temporal.ApplicationError](err)
		return decision{}, &RefusedError{refused.Message()}
	}
	p.parked, p.ended = false, Previewed{}
	return decision{request: "preview", action: p.Action, input: p.Decision}, nil
}

// cameTo reports whether the parked run has come to such a step.
func (p *preview) cameTo(step func(activities.Step) bool) bool {
	return slices.ContainsFunc(p.Waits.Steps, step)
}
