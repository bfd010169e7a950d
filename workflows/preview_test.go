package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/plan"
)

var (
	previewSeed  = flag.Uint64("preview-seed", 1, "the seed of the first random history")
	previewCount = flag.Int("preview-count", 1000, "how many random histories")
)

// history is a random sequence for one receipt, before and after a preview: a ledger, sinks that succeed or fail, and
// people who decide. It implements the activities in the SDK's test environment, and the reads of a preview.
//
// The sinks may fail before the preview, and work afterwards, because a preview assumes working sinks. But some sinks
// are paused for a while during the preview.
type history struct {
	*testing.T
	seed   uint64
	rng    *rand.Rand
	in     workflows.EventInput
	load   activities.LoadFactsResult
	change fold.Change

	mu     sync.Mutex // the test environment runs local activities concurrently
	ledger map[string]*ledger.Grant
	healed bool
	tries  map[string]int
	// unwanted are the kinds of effects that turn out to be obsolete.
	unwanted map[string]bool
	// status and reason are the values on the receipt.
	status, reason string
	parkedFor      activities.Waits
	// done contains the keys of effects that were done after the preview, and waited the keys that had to wait for
	// their sink.
	done, waited map[string]bool
	// paused contains the sinks that are paused during the preview, and waits counts how often each effect has waited
	// for this reason since the preview.
	paused map[string]bool
	waits  map[string]int
	// then is the ledger at the end of the previewed period; later changes are ignored. Before that time it is nil.
	then map[string]*ledger.Grant
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{T: t, seed: seed, tries: map[string]int{}, rng: rand.New(rand.NewPCG(seed, 17)), ledger: map[string]*ledger.Grant{}, unwanted: map[string]bool{}, done: map[string]bool{},
		waited: map[string]bool{}, paused: map[string]bool{}, waits: map[string]int{}}
	h.in = workflows.EventInput{
		Ref: event.Ref{ReceiptID: "receipt", Provider: "stripe", Mode: "live", EventID: "evt_1", ObjectID: "in_1", Type: pick(h.rng, "invoice.paid", "invoice.paid", "customer.subscription.deleted", "charge.refunded", "moon.risen")},
	}
	if h.chance(10) {
		h.in.Type, h.in.Due = "invoice.paid", &workflows.DueInput{Account: "acme", At: began}
	}
	h.change = h.someChange()
	h.load = activities.LoadFactsResult{
		Facts:   []fact.Fact{{Subject: h.change.Subject, Kind: fact.SubscriptionSeen, Object: "sub_1"}},
		Fetches: h.chance(30),
	}
	h.load.Planning.CancelCompensates = h.chance(20)
	if h.chance(50) {
		h.load.Planning.Onboarding = []string{"pro"}
	}
	for _, destination := range []string{"crm", "lake"} {
		if h.chance(30) {
			h.load.Destinations = append(h.load.Destinations, destination)
		}
	}
	if h.chance(10) {
		h.load.Code, h.load.Reason = "plan_unknown", "no mapping knows the price"
	}
	if h.chance(5) {
		h.load.Ignored, h.load.Code, h.load.Reason = true, activities.CodeAccountNotMapped, "acct_9"
	}
	for _, kind := range []string{"receipt-email", "finance-export", "provision-workspace"} {
		h.unwanted[kind] = h.chance(10)
	}
	for _, sink := range []string{plan.SinkWorkspaces, plan.SinkFinance, plan.SinkMail, plan.SinkStripe, "destinations:crm"} {
		h.paused[sink] = h.chance(15)
	}
	return h
}

func (h *history) chance(percent int) bool { return h.rng.IntN(100) < percent }

func pick[V any](rng *rand.Rand, of ...V) V { return of[rng.IntN(len(of))] }

// someChange returns a random result of applying facts.
func (h *history) someChange() fold.Change {
	access := fold.Access{
		Account: "acme", Target: fold.Target{Version: 7, State: fold.WorkspaceActive, Plan: "pro", Quantity: 1},
		Grants: []fold.Grant{{Object: "sub_1", Plan: "pro"}},
	}
	s := &fold.Subscription{Ref: fold.Ref{ID: "sub_1", Account: "acme"}, Status: "active", Sale: fact.Sale{Plan: "pro", Quantity: 1}, Version: 1, EverGranted: true}
	i := &fold.Invoice{
		Ref: fold.Ref{ID: "in_1", Account: "acme", Subscription: "sub_1"}, Status: "paid", Sale: fact.Sale{Plan: "pro"},
		Due: 4900, Paid: 4900, Tax: 700, Currency: "usd", PaidSums: []int64{4900}, PaidTimes: []time.Time{began},
	}
	c := fold.Change{
		Subject: fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1", ReceiptID: "receipt", OccurredAt: began},
		Before:  fold.State{Access: access},
		After:   fold.State{Subscription: s, Invoice: i, Access: access},
	}
	s.Uncertain = h.chance(30)
	if h.chance(30) {
		s.Status, s.EndedAt = "canceled", began
		c.After.Access.Grants, c.After.Access.Target = nil, fold.Target{Version: 8, State: fold.WorkspaceSuspended}
	}
	if h.chance(30) {
		c.After.Refunds = []fold.Refund{{Ref: fold.Ref{ID: "re_1", Account: "acme"}, Amount: 900, Currency: "usd", SucceededAt: began}}
	}
	if h.chance(20) {
		i.Review = fold.ReviewPaidAndVoid
	}
	if h.chance(20) {
		cause := fact.Cause{Provider: "stripe", EventID: "evt_0", ReceiptID: "another"}
		c.Due = []fold.Due{{Kind: fold.DueSettle, Object: "sub_1", At: began, Cause: cause}}
	}
	c.Silent = h.chance(5)
	if h.chance(50) {
		c.Before.Access.Target.Version--
	}
	return c
}

// value returns the result value of a successful effect.
func (h *history) value(input any) (any, error) {
	switch in := input.(type) {
	case activities.EffectInput[activities.Facts]:
		return h.change, nil
	case activities.EffectInput[activities.AccountDue]:
		due := h.change
		due.Subject = in.For.Subject
		return due, nil
	case activities.EffectInput[activities.Withholding]:
		withheld := fold.Change{Subject: h.change.Subject, After: fold.State{Access: h.change.After.Access}}
		withheld.After.Access.Target.Version++
		return withheld, nil
	case activities.EffectInput[activities.Entry]:
		return nil, h.wanted(in.Effect.Key, "finance-export")
	case activities.EffectInput[activities.Letter]:
		return nil, h.wanted(in.Effect.Key, "receipt-email")
	case activities.EffectInput[activities.Workspace]:
		return nil, h.wanted(in.Effect.Key, "provision-workspace")
	}
	return nil, nil
}

func (h *history) wanted(key, kind string) error {
	if h.unwanted[kind] && len(key) > len(kind) && key[:len(kind)] == kind {
		return &effect.NotWanted{Reason: kind + " is off"}
	}
	return nil
}

// do executes one effect (claim, call and record) by the rules of the ledger.
func (h *history) do(c effect.Call, input any) (effect.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.ledger[c.Key]
	if held != nil && !held.Claimable(c.Round) && (c.ByHand == nil || held.Settled()) {
		return effect.Recorded(*held, c.EventID), nil
	}
	if c.ByHand != nil {
		h.ledger[c.Key] = &ledger.Grant{State: ledger.Done, EventID: c.EventID}
		return effect.Result{State: effect.Done}, nil
	}
	if h.healed && h.paused[sinkOf(input)] && h.waits[c.Key] < 2 { // after two waits the sink works again
		h.waits[c.Key]++
		if h.then == nil {
			h.waited[c.Key] = true
		}
		return effect.Result{State: effect.Waits, Wait: 5 * time.Minute, Reason: "paused"}, nil
	}
	round := c.Round
	if held != nil {
		round = max(round, held.Round)
	}
	value, err := h.value(input)
	if !h.healed {
		err = errors.Join(h.mishap(c.Key, c.Kind), err)
	} else if h.then == nil {
		h.done[c.Key] = true
	}
	if busy := new(temporal.ApplicationError); errors.As(err, &busy) {
		h.status, h.reason = "retrying", "busy" // the same values that the effect writes to its receipt
		h.ledger[c.Key] = &ledger.Grant{State: ledger.Failed, Class: ledger.Transient, Round: round, EventID: c.EventID, Error: "busy"}
		return effect.Result{}, err
	}
	var failure *effect.Failure
	if errors.As(err, &failure) { // an error must not be combined with a value
		err = failure
	}
	result, foreseenErr := effect.Foreseen(value, err)
	if foreseenErr != nil {
		return result, foreseenErr
	}
	result.Round = round
	if failure != nil {
		result.Unanswered = failure.Unanswered
	}
	after := effect.StandingAfter(result, c.EventID)
	h.ledger[c.Key] = &after
	if of := h.ledger[c.Compensates]; of != nil && result.State == effect.Done && of.State != ledger.Skipped {
		of.State = ledger.Compensated
	}
	return result, nil
}

// mishap returns the failure of a sink, or nil. It depends only on the key and the number of attempts, because
// effects run concurrently and in any order.
func (h *history) mishap(key, kind string) error {
	h.tries[key]++
	sum := fnv.New64()
	fmt.Fprint(sum, key, h.tries[key])
	rng := rand.New(rand.NewPCG(h.seed, sum.Sum64()))
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	if !chance(35) {
		return nil
	}
	unanswered := chance(50)
	switch {
	case kind == "apply-facts" || kind == "apply-due":
		return pick[error](rng, effect.Fault("the database refuses it"), nil, nil)
	case chance(15):
		return temporal.NewApplicationErrorWithOptions("busy", effect.TypeTransient, temporal.ApplicationErrorOptions{NextRetryDelay: 2 * time.Hour})
	}
	return pick[error](rng,
		&effect.Failure{Class: ledger.Exhausted, Unanswered: unanswered, Err: errors.New("answered 503")},
		&effect.Failure{Class: ledger.Fault, Unanswered: unanswered, Err: errors.New("answered 404")},
		&effect.Failure{Class: ledger.Permanent, Unanswered: unanswered, Err: errors.New("answered 402")},
		effect.Doubt("nobody knows"),
	)
}

// The methods below are called by a preview.

func (h *history) LoadFacts(context.Context, activities.LoadFactsInput) (activities.LoadFactsResult, error) {
	if h.in.Due != nil {
		return activities.LoadFactsResult{Planning: h.load.Planning}, nil
	}
	return h.load, nil
}

func (h *history) Correct(context.Context, string, string, time.Time) ([]fold.Correction, error) {
	return nil, billing.ErrNoQuestion
}

func (h *history) LoadRelay(context.Context, activities.LoadRelayInput) (activities.LoadRelayResult, error) {
	if len(h.load.Destinations) == 0 {
		return activities.LoadRelayResult{Code: activities.CodeNoDestination, Reason: "nobody"}, nil
	}
	return activities.LoadRelayResult{Destinations: h.load.Destinations}, nil
}

func (h *history) Standings(_ context.Context, keys []string) (map[string]effect.Standing, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stands := map[string]effect.Standing{}
	for _, key := range keys {
		if g := h.ledger[key]; g != nil {
			stands[key] = *g
		}
	}
	return stands, nil
}

func (h *history) forecast(input any) (activities.Forecast, error) {
	value, err := h.value(input)
	result, err := effect.Foreseen(value, err)
	forecast := activities.Forecast{Result: result}
	if sink := sinkOf(input); h.paused[sink] {
		forecast.WaitsFor = sink + " is paused"
	}
	return forecast, err
}

func (h *history) ForecastFacts(_ context.Context, in activities.EffectInput[activities.Facts]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) ForecastWithholding(_ context.Context, in activities.EffectInput[activities.Withholding]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) ForecastDue(_ context.Context, in activities.EffectInput[activities.AccountDue]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) ForecastWorkspace(_ context.Context, in activities.EffectInput[activities.Workspace]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) ForecastAlignment(_ context.Context, in activities.EffectInput[activities.WorkspaceRef]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) ForecastEntry(_ context.Context, in activities.EffectInput[activities.Entry]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) ForecastLetter(_ context.Context, in activities.EffectInput[activities.Letter]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) WriteLetter(_ context.Context, in activities.EffectInput[activities.Letter]) (activities.WrittenLetter, error) {
	return activities.WrittenLetter{Template: in.For.Template}, nil
}

func (h *history) ForecastTask(_ context.Context, in activities.EffectInput[activities.Task]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) ForecastRelay(_ context.Context, in activities.EffectInput[activities.Delivery]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) ForecastStep(_ context.Context, in activities.EffectInput[flow.Call]) (activities.Forecast, error) {
	return h.forecast(in)
}

func (h *history) ForecastFetch(_ context.Context, in activities.EffectInput[activities.Wanted]) (activities.Forecast, error) {
	return h.forecast(in)
}

// sinkOf returns the sink of an effect, or "" for pawl's own database.
func sinkOf(input any) string {
	switch in := input.(type) {
	case activities.EffectInput[activities.Workspace], activities.EffectInput[activities.WorkspaceRef]:
		return plan.SinkWorkspaces
	case activities.EffectInput[activities.Entry]:
		return plan.SinkFinance
	case activities.EffectInput[activities.Letter]:
		return plan.SinkMail
	case activities.EffectInput[activities.Wanted]:
		return plan.SinkStripe
	case activities.EffectInput[activities.Delivery]:
		return plan.SinkDestinations + ":" + in.For.Destination
	}
	return ""
}

// environment returns the test environment of a new run.
func (h *history) environment() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	// a long timeout, because the machine may be busy
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	for _, receiver := range []any{
		&activities.Billing{}, &activities.Workspaces{}, &activities.Finance{}, &activities.Mail{}, &activities.Tasks{},
		&activities.Destinations{}, &activities.Runs{}, &activities.Objects{},
	} {
		env.RegisterActivity(receiver)
	}
	plays(env, "LoadFacts", h.LoadFacts)
	plays(env, "LoadRelay", h.LoadRelay)
	does[activities.Facts](h, env, "ApplyFacts")
	does[activities.AccountDue](h, env, "ApplyDue")
	does[activities.Withholding](h, env, "WithholdGrant")
	does[activities.Workspace](h, env, "ProvisionWorkspace")
	does[activities.WorkspaceRef](h, env, "AlignWorkspace")
	does[activities.Entry](h, env, "PostEntry")
	does[activities.Letter](h, env, "SendLetter")
	does[activities.Task](h, env, "OpenTask")
	does[activities.Task](h, env, "CloseTask")
	does[activities.Task](h, env, "CancelTask")
	does[activities.Delivery](h, env, "RelayEvent")
	does[activities.Wanted](h, env, "FetchObject")
	plays(env, "ParkRun", func(_ context.Context, in activities.ParkRunInput) (activities.ParkRunResult, error) {
		h.stand(in.Status, in.Reason)
		h.parkedFor = in.Waits
		return activities.ParkRunResult{}, nil
	})
	plays(env, "FinishRun", func(_ context.Context, in activities.FinishRunInput) (activities.FinishRunResult, error) {
		h.stand(in.Status, in.Reason)
		return activities.FinishRunResult{}, nil
	})
	plays(env, "RecordDecision", func(context.Context, activities.RecordDecisionInput) (activities.RecordDecisionResult, error) {
		h.stand("processing", "")
		return activities.RecordDecisionResult{}, nil
	})
	env.OnActivity("RecordCancellation", mock.Anything, mock.Anything).Return(activities.RecordCancellationResult{Words: "cancelled in Temporal by bob"}, nil)
	plays(env, "ReadEffects", func(ctx context.Context, in activities.ReadEffectsInput) (activities.ReadEffectsResult, error) {
		stands, err := h.Standings(ctx, slices.Concat(in.Keys, in.Undos))
		return in.Of(stands), err
	})
	plays(env, "SkipEffect", h.skip)
	env.OnActivity("WakeWaiting", mock.Anything, mock.Anything).Return(activities.WakeWaitingResult{}, nil)
	env.OnActivity("WithholdEffects", mock.Anything, mock.Anything).Return(activities.WithholdEffectsResult{}, nil)
	return env
}

func plays[I, R any](env *testsuite.TestWorkflowEnvironment, name string, f func(context.Context, I) (R, error)) {
	env.OnActivity(name, mock.Anything, mock.Anything).Return(f)
}

func does[N any](h *history, env *testsuite.TestWorkflowEnvironment, name string) {
	plays(env, name, func(_ context.Context, in activities.EffectInput[N]) (effect.Result, error) {
		return h.do(in.Effect, in)
	})
}

func (h *history) stand(status, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.then == nil {
		h.status, h.reason = status, reason
	}
}

func (h *history) skip(_ context.Context, in activities.SkipEffectInput) (activities.SkipEffectResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.ledger[in.Effect.Key]; held != nil && held.Settled() {
		met := effect.Recorded(*held, in.Effect.EventID)
		return activities.SkipEffectResult{Met: &met}, nil
	}
	skipped := effect.StandingAfter(effect.Result{State: effect.Skipped, Reason: in.Reason}, in.Effect.EventID)
	if held := h.ledger[in.Effect.Key]; held != nil {
		skipped.Round, skipped.Result = held.Round, held.Result // a skip keeps the recorded attempts
	}
	h.ledger[in.Effect.Key] = &skipped
	return activities.SkipEffectResult{}, nil
}

// decision returns a random permitted decision.
func (h *history) decision() (action string, in workflows.DecisionInput) {
	action = pick(h.rng, append(workflows.Decisions(), workflows.UpdateRetry, workflows.UpdateCompensate)...)
	in = ada
	open := []string{"finance-export"}
	for key, g := range h.ledger {
		if g.State == ledger.Failed || g.State == ledger.Uncertain {
			open = append(open, key)
		}
	}
	slices.Sort(open)
	switch action {
	case workflows.UpdateSkip, workflows.UpdateRetry:
		if h.chance(50) {
			in.Effect = pick(h.rng, open...)
		}
	case workflows.UpdateDone, workflows.UpdateResend:
		in.Effect, in.Reference = pick(h.rng, open...), "entry 7"
		in.Confirm = in.Effect
	}
	return action, in
}

// parkedNow reports whether the run waits for a person.
func (h *history) parkedNow() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status == "needs_review" || h.status == "dead"
}

// previewed contains the results of the preview.
type previewed struct {
	action string
	in     workflows.DecisionInput
	made   workflows.Previewed
	err    error
	// asked is set when the preview has been computed, and rejected is set if the run has rejected the decision.
	asked    bool
	rejected error
}

// foresee computes the preview. Afterwards every sink works.
func (h *history) foresee(p *previewed, asked workflows.Asked) {
	p.asked = true
	p.made, p.err = workflows.Preview(h.Context(), h, asked)
	h.mu.Lock()
	h.healed = true
	h.mu.Unlock()
}

// run executes a run until it ends: with some decisions first, and then, if the run is parked, with the previewed
// decision.
func (h *history) run(p *previewed) {
	env := h.environment()
	at := 10 * time.Hour
	later := func(f func()) { env.RegisterDelayedCallback(f, at); at += 10 * time.Hour }
	if h.chance(20) {
		env.RegisterDelayedCallback(env.CancelWorkflow, pick(h.rng, 0, time.Hour, 9*time.Hour))
	}
	tell := func(action string, in workflows.DecisionInput, rejected *error) {
		env.UpdateWorkflow(action, fmt.Sprint(action, at, h.rng.Uint64()), &decided{rejected}, in)
	}
	for range h.rng.IntN(3) {
		later(func() {
			action, in := h.decision()
			tell(action, in, nil)
		})
	}
	if p.action != "" {
		later(func() {
			if !h.parkedNow() || p.asked {
				return
			}
			p.action, p.in = h.decision()
			code, _, _ := cut(h.reason)
			h.foresee(p, workflows.Asked{In: h.in, Action: p.action, Decision: p.in, ReasonCode: code, Reason: h.reason, Waits: h.parkedFor})
			tell(p.action, p.in, &p.rejected)
		})
		later(func() { h.stop() })
	}
	for range 6 { // skip the remaining effects, so that the run ends
		later(func() { tell(workflows.UpdateSkip, ada, nil) })
	}
	h.execute(env)
}

func (h *history) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.healed && h.then == nil {
		h.then = h.copied()
	}
}

func (h *history) copied() map[string]*ledger.Grant {
	copied := map[string]*ledger.Grant{}
	for key, g := range h.ledger {
		now := *g
		copied[key] = &now
	}
	return copied
}

func cut(reason string) (code, words string, found bool) {
	for i := range reason {
		if reason[i] == ':' {
			return reason[:i], reason[i+1:], true
		}
	}
	return reason, "", false
}

func (h *history) execute(env *testsuite.TestWorkflowEnvironment) {
	workflows.Register(env)
	env.ExecuteWorkflow(h.in.Flow(), h.in)
	if !env.IsWorkflowCompleted() {
		h.Fatal("the run has not ended")
	}
	if err := env.GetWorkflowError(); err != nil {
		h.Fatal(err)
	}
}

// replay previews a replay and then executes it.
func (h *history) replay(p *previewed) {
	h.in.Replay = &workflows.ReplayInput{Request: "r", Actor: "ada", Reason: "again"}
	h.foresee(p, workflows.Asked{In: h.in})
	env := h.environment()
	env.RegisterDelayedCallback(h.stop, time.Hour)
	for n := range 6 {
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(workflows.UpdateSkip, fmt.Sprint("end", n), &decided{}, ada)
		}, time.Duration(n+2)*time.Hour)
	}
	h.execute(env)
}

// compare compares the actual results with the preview.
func (h *history) compare(p *previewed) {
	h.Helper()
	if refused := new(workflows.RefusedError); errors.As(p.err, &refused) {
		if p.rejected == nil {
			h.Errorf("the preview predicted that %s is refused (%v), and it was accepted", p.action, p.err)
		}
		return
	}
	if p.err != nil || p.rejected != nil {
		h.Errorf("preview of %s: %v; the run has rejected it: %v", p.action, p.err, p.rejected)
		return
	}
	if h.then == nil { // the run has ended without another park
		h.then = h.copied()
	}
	said := map[string]workflows.PreviewedEffect{}
	for _, e := range p.made.Effects {
		said[e.Key] = e
		state, held := ledger.State(""), h.then[e.Key]
		if held != nil {
			state = held.State
		}
		want := map[workflows.Will][]ledger.State{
			workflows.WillStay: {ledger.Done}, workflows.WillRun: {ledger.Done}, workflows.WillRunLater: {ledger.Done}, workflows.WillAsk: {ledger.Uncertain},
			workflows.WillRefuse: {ledger.Failed}, workflows.WillNotBeDone: {ledger.Failed}, workflows.WillTakeBack: {ledger.Compensated}, workflows.WillRunAndTakeBack: {ledger.Compensated},
			workflows.WillLeave: {ledger.Skipped}, workflows.WillSkip: {ledger.Skipped}, workflows.WillMark: {ledger.Done},
			workflows.WasSkipped: {ledger.Skipped}, workflows.WasTakenBack: {ledger.Compensated}, workflows.WillWait: {"", ledger.Failed},
		}[e.Will]
		ran := e.Will == workflows.WillRun || e.Will == workflows.WillRunLater || e.Will == workflows.WillRunAndTakeBack || e.Will == workflows.WillLeave
		waits := e.WaitsFor != ""
		if waits != h.waited[e.Key] || waits && e.Will == workflows.WillRun || !waits && e.Will == workflows.WillRunLater {
			h.Errorf("%s: predicted %s, and a wait for %q; it waited: %t", e.Key, e.Will, e.WaitsFor, h.waited[e.Key])
		}
		if refused := state == ledger.Failed && held.Class == ledger.Permanent; e.Will == workflows.WillRefuse && !refused || e.Will == workflows.WillNotBeDone && refused {
			h.Errorf("%s: predicted %s (%s); it was refused: %t", e.Key, e.Will, e.Reason, refused)
		}
		if h.done[e.Key] != ran || !slices.Contains(want, state) {
			h.Errorf("%s: predicted %s (%s); it was done: %t, and is %q", e.Key, e.Will, e.Reason, h.done[e.Key], state)
		}
	}
	for key := range h.done {
		if _, known := said[key]; !known && !p.made.Asks {
			h.Errorf("%s was done, and was not predicted", key)
		}
	}
	if p.made.Outcome != h.status && !p.made.Asks {
		h.Errorf("%s was predicted (%s), and it is %s (%s)", p.made.Outcome, p.made.Reason, h.status, h.reason)
	}
}

// The preview predicts the result in 1,000 random histories. Each history has its own past. Then either a decision
// about the parked run or a replay of the ended run is previewed.
func TestPreview_RandomHistories_HappensAsSaid(t *testing.T) {
	t.Parallel()
	verbs := map[string]int{}
	for n := range uint64(*previewCount) {
		seed := *previewSeed + n
		ok := t.Run("", func(t *testing.T) {
			h := newHistory(t, seed)
			p := &previewed{action: pick(h.rng, "decide", "decide", "")}
			h.run(p)
			if p.asked {
				verbs[p.action]++
			} else {
				p.action = ""
				verbs["replay"]++
				h.replay(p)
			}
			h.compare(p)
			if t.Failed() {
				said, _ := json.MarshalIndent(p.made, "", " ")
				t.Logf("again with: go test ./workflows -run %s -preview-seed %d -preview-count 1\n%s of %+v with %+v (%s)\nsaid %s", "TestPreview_RandomHistories", seed, p.action, h.in, p.in, h.reason, said)
			}
		})
		if !ok && n > 20 {
			break
		}
	}
	t.Logf("%d histories from seed %d: %v", *previewCount, *previewSeed, verbs)
	for _, verb := range append(workflows.Decisions(), "replay") {
		if *previewCount >= 1000 && verbs[verb] < *previewCount/200 {
			t.Errorf("only %d of %d histories are about %s", verbs[verb], *previewCount, verb)
		}
	}
}
