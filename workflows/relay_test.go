package workflows_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/testsuite"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/workflows"
)

// relayWorld implements the activities of Relay, by destination.
type relayWorld struct {
	env          *testsuite.TestWorkflowEnvironment
	destinations []string
	review       string
	// answer returns the result of the n-th attempt with a key.
	answer func(key string, n int) (effect.Result, error)

	mu       sync.Mutex // the test environment runs local activities concurrently
	tries    map[string]int
	rounds   map[string][]int
	parked   []activities.ParkRunInput
	finished []activities.FinishRunInput
	skipped  []string
}

func newRelayWorld(destinations ...string) *relayWorld {
	w := &relayWorld{destinations: destinations, tries: map[string]int{}, rounds: map[string][]int{},
		answer: func(string, int) (effect.Result, error) { return effect.Result{State: effect.Done}, nil }}
	var suite testsuite.WorkflowTestSuite
	w.env = suite.NewTestWorkflowEnvironment()
	w.env.RegisterActivity(&activities.Destinations{})
	w.env.RegisterActivity(&activities.Runs{})
	w.env.OnActivity("LoadRelay", mock.Anything, mock.Anything).Return(func(context.Context, activities.LoadRelayInput) (activities.LoadRelayResult, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.review != "" {
			return activities.LoadRelayResult{Code: "no_destination", Reason: w.review}, nil
		}
		return activities.LoadRelayResult{Destinations: w.destinations}, nil
	})
	w.env.OnActivity("RelayEvent", mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.EffectInput[activities.Delivery]) (effect.Result, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tries[in.Effect.Key]++
		w.rounds[in.Effect.Key] = append(w.rounds[in.Effect.Key], in.Effect.Round)
		return w.answer(in.Effect.Key, w.tries[in.Effect.Key])
	})
	w.env.OnActivity("ParkRun", mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.ParkRunInput) (activities.ParkRunResult, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.parked = append(w.parked, in)
		return activities.ParkRunResult{}, nil
	})
	w.env.OnActivity("FinishRun", mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.FinishRunInput) (activities.FinishRunResult, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.finished = append(w.finished, in)
		return activities.FinishRunResult{}, nil
	})
	w.env.OnActivity("SkipEffect", mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.SkipEffectInput) (activities.SkipEffectResult, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.skipped = append(w.skipped, in.Effect.Key)
		return activities.SkipEffectResult{}, nil
	})
	w.env.OnActivity("ReadEffects", mock.Anything, mock.Anything).Return(activities.ReadEffectsResult{}, nil)
	w.env.OnActivity("WakeWaiting", mock.Anything, mock.Anything).Return(activities.WakeWaitingResult{}, nil)
	w.env.OnActivity("RecordDecision", mock.Anything, mock.Anything).Return(activities.RecordDecisionResult{}, nil)
	return w
}

// decide sends an update after a delay; refused is the reason if the run rejects it.
func (w *relayWorld) decide(after time.Duration, action string, in workflows.DecisionInput, refused *error) {
	w.env.RegisterDelayedCallback(func() {
		w.env.UpdateWorkflow(action, action+after.String(), &decided{refused}, in)
	}, after)
}

type decided struct{ refused *error }

func (d *decided) Accept() {}
func (d *decided) Reject(err error) {
	if d.refused != nil {
		*d.refused = err
	}
}
func (d *decided) Complete(any, error) {}

func (w *relayWorld) run(t *testing.T, in workflows.EventInput) workflows.EventResult {
	t.Helper()
	workflows.Register(w.env)
	w.env.ExecuteWorkflow(in.Flow(), in)
	var result workflows.EventResult
	if err := errors.Join(w.env.GetWorkflowError(), w.env.GetWorkflowResult(&result)); err != nil {
		t.Fatal(err)
	}
	return result
}

var pushed = workflows.EventInput{Ref: event.Ref{ReceiptID: "r-1", Provider: "github", Mode: "live", EventID: "d-1", Type: "push"}}

func TestRelay_EachDestinationItsOwnEffect(t *testing.T) {
	t.Parallel()
	w := newRelayWorld("crm", "lake")
	result := w.run(t, pushed)
	if result.Outcome != "processed" || len(result.Effects) != 2 {
		t.Errorf("result %+v", result)
	}
	if w.tries["relay:github:live:d-1:crm"] != 1 || w.tries["relay:github:live:d-1:lake"] != 1 {
		t.Errorf("tries %v", w.tries)
	}
	connected := newRelayWorld("crm")
	in := pushed
	in.Account = "acct_9"
	connected.run(t, in)
	if connected.tries["relay:github:live:acct_9:d-1:crm"] != 1 {
		t.Errorf("with an account: tries %v", connected.tries)
	}
	// An account with a colon cannot result in the key of another event, and no ID is too long for the ledger.
	in.Account, in.EventID = "a:b", strings.Repeat("ü", 100)
	odd := newRelayWorld("crm")
	odd.run(t, in)
	for key := range odd.tries {
		if strings.Contains(key, "a:b") || len(key) > 400 {
			t.Errorf("key %q", key)
		}
	}
}

// One destination is down. The other destination gets the event, the run parks as dead, and a retry sends only the
// missing deliveries.
func TestRelay_OneDown_ParksAndRetries(t *testing.T) {
	t.Parallel()
	w := newRelayWorld("crm", "lake")
	const lake = "relay:github:live:d-1:lake"
	w.answer = func(key string, n int) (effect.Result, error) {
		if key == lake && n == 1 {
			return effect.Result{State: effect.Failed, Reason: "lake answered 500"}, nil
		}
		return effect.Result{State: effect.Done}, nil
	}
	var refused error
	w.decide(time.Minute, workflows.UpdateCompensate, workflows.DecisionInput{Actor: "ada", Reason: "no"}, &refused)
	w.decide(2*time.Minute, workflows.UpdateRetry, workflows.DecisionInput{Actor: "ada", Reason: "lake is back"}, nil)
	if result := w.run(t, pushed); result.Outcome != "processed" {
		t.Errorf("result %+v", result)
	}
	if len(w.parked) != 1 || w.parked[0].Status != "dead" || !strings.Contains(w.parked[0].Reason, "lake answered 500") {
		t.Errorf("parked %+v", w.parked)
	}
	if refused == nil || !strings.Contains(refused.Error(), "cannot be compensated") {
		t.Errorf("compensate: %v, want it refused", refused)
	}
	if w.tries["relay:github:live:d-1:crm"] != 1 || w.tries[lake] != 2 || w.rounds[lake][1] != 1 {
		t.Errorf("tries %v, rounds %v", w.tries, w.rounds)
	}
}

func TestRelay_Skip(t *testing.T) {
	t.Parallel()
	w := newRelayWorld("crm", "lake")
	w.answer = func(key string, _ int) (effect.Result, error) {
		if strings.HasSuffix(key, ":lake") {
			return effect.Result{State: effect.Refused, Reason: "lake answered 410"}, nil
		}
		return effect.Result{State: effect.Done}, nil
	}
	w.decide(time.Minute, workflows.UpdateSkip, workflows.DecisionInput{Actor: "ada", Reason: "lake is gone", Effect: "relay:github:live:d-1:lake"}, nil)
	if result := w.run(t, pushed); result.Outcome != "processed" {
		t.Errorf("result %+v", result)
	}
	if len(w.skipped) != 1 || len(w.parked) != 1 || w.parked[0].Status != "needs_review" {
		t.Errorf("skipped %v, parked %+v", w.skipped, w.parked)
	}
}

// If the source has no destination, the run waits until a destination is configured.
func TestRelay_NoDestination_ParksUntilThereIsOne(t *testing.T) {
	t.Parallel()
	w := newRelayWorld("crm")
	w.review = "nobody"
	w.env.RegisterDelayedCallback(func() {
		w.mu.Lock()
		w.review = ""
		w.mu.Unlock()
	}, 30*time.Second)
	w.decide(time.Minute, workflows.UpdateRetry, workflows.DecisionInput{Actor: "ada", Reason: "configured"}, nil)
	if result := w.run(t, pushed); result.Outcome != "processed" || len(result.Effects) != 1 {
		t.Errorf("result %+v", result)
	}
	if len(w.parked) != 1 || w.parked[0].Reason != "no_destination: nobody" {
		t.Errorf("parked %+v", w.parked)
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		provider, eventType, flow string
		written                   bool
	}{
		{"stripe", "invoice.paid", "InvoicePaid", true},
		{"stripe", "moon.risen", "Relay", false},
		{"github", "invoice.paid", "Relay", false},
		{"github", "", "Relay", false},
	} {
		if flow, written := workflows.Route(c.provider, c.eventType), workflows.Written(c.provider, c.eventType); flow != c.flow || written != c.written {
			t.Errorf("%s %q: %s, %t; want %s, %t", c.provider, c.eventType, flow, written, c.flow, c.written)
		}
	}
}
