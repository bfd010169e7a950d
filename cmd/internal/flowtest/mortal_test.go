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

// hire starts a worker of a process of its own, whose activities go through the gates. kill ends it as kill -9 does, for
// those who look at it from outside: nothing that it is at comes to an end, and nobody is told. It may be called once.
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
	options.MaxConcurrentLocalActivityExecutionSize = 1000 // what is held at a gate keeps its slot
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
		node.Temporal.Close() // first: what ends from now on, nobody hears of
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

// gate holds activities up: for each event the effect of one kind, before it is begun or once it is done.
type gate struct {
	interceptor.WorkerInterceptorBase
	// before holds an effect before anything of it has happened, else it is held once the ledger says that it is done, and
	// before Temporal is told.
	before bool

	mu     sync.Mutex
	kinds  map[string]string // by event
	held   int
	busy   int // all that have been begun and have not ended, those that are held among them
	opened chan struct{}
	end    error
}

func newGate(before bool) *gate {
	return &gate{before: before, kinds: map[string]string{}, opened: make(chan struct{})}
}

// hold has the gate hold up the effect of a kind of an event, once.
func (g *gate) hold(event, kind string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kinds[event] = kind
}

// holding counts those that stand at the gate.
func (g *gate) holding() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

// begins counts one more that has been begun, and returns how to say that it has ended.
func (g *gate) begins() (ends func()) {
	add := func(n int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.busy += n
	}
	add(1)
	return func() { add(-1) }
}

// standStill waits until n effects stand at the gate, and nothing else is at work beside them: a mail that is on its way
// when a worker is killed is in doubt, and rightly so.
func (r *rig) standStill(g *gate, n int) {
	r.Helper()
	still := 0
	r.until("each is held up, and nothing else is at work", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		if still++; g.held != n || g.busy != n {
			still = 0
		}
		return still == 10 // what has just been asked for may not have begun
	})
}

// open lets go what stands at the gate: with an error, or to go on where it is nil.
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

// callOf finds the effect that an activity is asked for, false where it is none.
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
