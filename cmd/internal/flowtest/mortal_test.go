package flowtest

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/workflows"
)

// hire starts a worker with its own connections, as a separate process would have. Its activities pass through the
// gates. kill ends the worker like kill -9, as seen by other processes: no activity completes or reports anything.
// kill may be called only once.
func (r *rig) hire(gates ...*gate) (kill func()) {
	r.Helper()
	ctx, stop := context.WithCancel(context.Background())
	node, err := process.New(ctx, r.Config, providers, slog.New(slog.DiscardHandler))
	if err != nil {
		r.Fatal(err)
	}
	node.Breaking = r.Breaking
	if err := r.UntilDone(r.Context(), "register search attributes", node.EnsureSearchAttributes); err != nil {
		r.Fatal(err)
	}
	book, publisher, all, err := node.Equip()
	if err != nil {
		r.Fatal(err)
	}
	options := node.WorkerOptions()
	options.WorkerStopTimeout = 0
	options.MaxConcurrentLocalActivityExecutionSize = 1000 // an activity that waits at a gate occupies its slot
	for _, g := range gates {
		options.Interceptors = append(options.Interceptors, g)
	}
	w := worker.New(node.Temporal, r.Config.Temporal.TaskQueue, options)
	workflows.Register(w)
	for _, receiver := range all {
		w.RegisterActivity(receiver)
	}
	if err := w.Start(); err != nil {
		r.Fatal(err)
	}
	var publishing sync.WaitGroup
	publishing.Go(func() { publisher.Run(ctx) })
	kill = sync.OnceFunc(func() {
		node.Temporal.Close() // close this first, so that activities that end later report nothing
		stop()
		for _, g := range gates {
			g.open(errors.New("the worker was killed"))
		}
		node.Pool.Close()
		w.Stop()
		publishing.Wait()
		book.Close()
		node.Close()
	})
	r.Cleanup(kill)
	return kill
}

// gate blocks the effects of one kind for each event, before they start or after they are done.
type gate struct {
	interceptor.WorkerInterceptorBase
	// before blocks an effect before it starts. Otherwise the gate blocks it after the ledger records it as done, and
	// before Temporal receives the result.
	before bool

	mu     sync.Mutex
	kinds  map[string]string // by event
	held   int
	busy   int // all running activities, including the blocked ones
	opened chan struct{}
	end    error
}

func newGate(before bool) *gate {
	return &gate{before: before, kinds: map[string]string{}, opened: make(chan struct{})}
}

// hold makes the gate block the effect of this kind of an event once.
func (g *gate) hold(event, kind string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kinds[event] = kind
}

// holding returns the number of blocked activities.
func (g *gate) holding() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

// begins counts a started activity, and returns a function that counts its end.
func (g *gate) begins() (ends func()) {
	add := func(n int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.busy += n
	}
	add(1)
	return func() { add(-1) }
}

// standStill waits until n effects are blocked at the gate and no other activity runs. An e-mail that is being sent
// when its worker is killed would become uncertain.
func (r *rig) standStill(g *gate, n int) {
	r.Helper()
	still := 0
	r.until("each is held up, and nothing else is at work", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		if still++; g.held != n || g.busy != n {
			still = 0
		}
		return still == 10 // an activity that the workflow has requested may not have started yet
	})
}

// open ends the blocked activities with the error end, or lets them continue if end is nil.
func (g *gate) open(end error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		g.end = end
		close(g.opened)
	}
}

func (g *gate) stops(c effect.Call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	kind, wanted := g.kinds[c.EventID]
	if !wanted || kind != c.Kind {
		return false
	}
	delete(g.kinds, c.EventID)
	g.held++
	return true
}

func (g *gate) wait() error {
	<-g.opened
	return g.end
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (g *gate) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &gated{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, gate: g}
}

type gated struct {
	interceptor.ActivityInboundInterceptorBase
	gate *gate
}

func (a *gated) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	defer a.gate.begins()()
	call, isEffect := callOf(in.Args)
	if isEffect && a.gate.before && a.gate.stops(call) {
		if err := a.gate.wait(); err != nil {
			return nil, err
		}
	}
	result, err := a.Next.ExecuteActivity(ctx, in)
	if isEffect && !a.gate.before && err == nil && a.gate.stops(call) {
		if err := a.gate.wait(); err != nil {
			return nil, err
		}
	}
	return result, err
}

// callOf returns the effect of an activity's arguments, and false if there is no effect.
func callOf(args []any) (effect.Call, bool) {
	for _, arg := range args {
		v := reflect.ValueOf(arg)
		if v.Kind() != reflect.Struct {
			continue
		}
		if f := v.FieldByName("Effect"); f.IsValid() {
			call, ok := f.Interface().(effect.Call)
			return call, ok
		}
	}
	return effect.Call{}, false
}
