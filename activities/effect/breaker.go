package effect

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/pause"
)

// Health is what the end of an attempt says about the sink, and not about the effect.
type Health int

// The healths. The zero value says nothing: the attempt did not come to the sink, or nobody knows.
const (
	_ Health = iota
	// Answered: the sink is there, whatever it said about this effect.
	Answered
	// Down: it was not reached, did not answer, or failed.
	Down
	// Denied: it does not know us (401, 403): everything that is sent would end in the same way.
	Denied
)

// Breaking says when a sink counts as out, and how its effects come back.
type Breaking struct {
	// Failures is how many effects that fail equally in a row open a sink's breaker, each counted once.
	Failures int
	// FirstProbe is when the first probe goes through; the wait doubles up to MaxProbe.
	FirstProbe, MaxProbe time.Duration
	// Polls is how many of the waiting runs poll the breaker by themselves in a second, all together: each waits the
	// longer, the more there are, from LeastWait to MostWait.
	Polls               int
	LeastWait, MostWait time.Duration
	// Back is how many of the waiting runs are let in each second when the sink is back.
	Back int
}

// DefaultBreaking is what holds in production.
//
// Five failures are more than a restart of a small API shows, and fewer than the places of a sink. An engine on two
// cores runs about eighty effects a second. Ten polls a second cost it a tenth of that, however many wait.
var DefaultBreaking = Breaking{
	Failures: 5, FirstProbe: 5 * time.Second, MaxProbe: 15 * time.Second,
	Polls: 10, LeastWait: 5 * time.Second, MostWait: 10 * time.Minute, Back: 80,
}

// probeIn is the wait before the next probe, when so many have failed.
func (b Breaking) probeIn(failed int) time.Duration {
	return min(b.FirstProbe<<min(failed, 16), b.MaxProbe)
}

// wait is how long a run waits before it polls its sink's breaker again, where so many wait.
func (b Breaking) wait(waiting int) time.Duration {
	return jitter(min(max(time.Duration(waiting)*time.Second/time.Duration(b.Polls), b.LeastWait), b.MostWait))
}

// outage is what a process knows of a sink that is out.
type outage struct {
	since time.Time
	breaker.Failures
	probes int
	// probeAt is by this process's clock.
	probeAt time.Time
	// waiting is how many runs wait for the sink.
	waiting int
	// paused is set while the sink is paused. Nothing goes through then, and only a person ends it. The other fields
	// mean nothing then.
	paused *pause.Pause
}

func (o outage) words() string {
	if o.paused != nil {
		return o.paused.Words()
	}
	return fmt.Sprintf("is out since %s: %s", o.since.UTC().Format(time.RFC3339), o.Reason)
}

// Holding says how a sink is paused or out.
type Holding struct {
	// Words follow the sink's name.
	Words  string
	Paused bool
}

// Held reads which sinks are paused or out. A pause goes before an outage: only its end lets anything through.
func Held(ctx context.Context, pool *pgxpool.Pool) (map[string]Holding, error) {
	list, err := breaker.New(pool).All(ctx)
	if err != nil {
		return nil, err
	}
	paused, err := pause.Now(ctx, pool)
	if err != nil {
		return nil, err
	}
	held := map[string]Holding{}
	for _, b := range list {
		if b.Open {
			held[b.Sink] = Holding{Words: outage{since: b.Since, Failures: b.Failures}.words()}
		}
	}
	for _, p := range paused {
		if p.Kind == pause.Sink {
			held[p.Name] = Holding{p.Words(), true}
		}
	}
	return held, nil
}

// health is a process's view of a sink, by its own attempts and by those of other processes.
type health struct {
	mu  sync.Mutex
	out *outage
	// failures are the equal ones in a row, and keys the effects that have failed so.
	failures breaker.Failures
	keys     []string
	// paused is the pause that lasts, pauses are that and those before.
	paused *pause.Pause
	pauses []span
}

// outage returns the sink's outage or pause, false if it is neither out nor paused.
func (g *Gate) outage() (outage, bool) {
	if g == nil {
		return outage{}, false
	}
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	switch h := &g.health; {
	case h.paused != nil:
		return outage{paused: h.paused}, true
	case h.out != nil:
		return *h.out, true
	}
	return outage{}, false
}

// Out returns since when the sink is out and why, false if it is not out. A paused sink may be out as well.
func (g *Gate) Out() (since time.Time, reason string, out bool) {
	o, out := g.known()
	return o.since, o.Reason, out
}

// known is outage without the pause.
func (g *Gate) known() (outage, bool) {
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	if g.health.out == nil {
		return outage{}, false
	}
	return *g.health.out, true
}

func (g *Gate) set(o *outage) {
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	g.health.out = o
}

// answered takes the sink's answer and returns whether it counts as out.
func (g *Gate) answered() (out bool) {
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	g.health.failures, g.health.keys = breaker.Failures{}, nil
	return g.health.out != nil
}

// failed takes a failure of the sink. It returns the equal ones in a row, and how many different effects have failed
// so: the effects of one customer may fail again and again, for a reason of that customer's.
func (g *Gate) failed(c Call, p Policy, reason, said string) (breaker.Failures, int) {
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	h := &g.health
	if h.failures.Reason != reason {
		h.failures, h.keys = breaker.Failures{}, nil
	}
	h.failures = h.failures.And(reason, said, p.about(c), c.EventID)
	if !slices.Contains(h.keys, c.Key) && len(h.keys) < mostKeys {
		h.keys = append(h.keys, c.Key)
	}
	return h.failures, len(h.keys)
}

// mostKeys bounds the effects that are told apart: more than opens any breaker.
const mostKeys = 100

// probes reports whether an effect is the next probe of a sink that is out. One that is about an account whose effects
// have failed leaves the others a while to go first: the sink may only fail for that account.
func (r *Runner) probes(ctx context.Context, c Call, p Policy, o outage) (bool, error) {
	due := o.probeAt
	if slices.Contains(o.About, p.about(c)) && o.waiting > len(o.Events) {
		due = due.Add(2 * r.Breaking.LeastWait)
	}
	if o.paused != nil || time.Now().Before(due) {
		return false, nil
	}
	lease := p.Timeout + claiming + recording // a probe that its worker does not end is followed by the next
	probe, err := r.Breakers.Probe(ctx, p.Gate.sink, lease)
	if err == nil {
		o.probeAt = time.Now().Add(lease)
		p.Gate.set(&o)
	}
	return probe, err
}

// held decides about an effect whose sink is out: whether it is the one that probes, makes its last try because its
// time is over, or waits. An effect of a paused sink waits, and its time stands still. If the ledger says that the
// effect has ended, none of these holds, and the claim tells so.
func (r *Runner) held(ctx context.Context, c Call, p Policy) (probe, last bool, waits Result, err error) {
	o, out := p.Gate.outage()
	if !out {
		return false, false, Result{}, nil
	}
	found, err := r.Ledger.Read(ctx, []string{c.Key})
	if err != nil {
		return false, false, Result{}, r.again(ctx, TypeInfrastructure, 0, err, "cannot read %s", c.Key)
	}
	g, known := found[c.Key]
	tried := known && c.Round <= g.Round
	left := p.Retries.For
	switch {
	case tried && g.State != ledger.Claimed && (g.State != ledger.Failed || g.Class != ledger.Transient):
		return false, false, Result{}, nil
	case o.paused != nil:
		return false, false, r.waits(ctx, c, p, o, 0), nil
	case tried:
		left = p.left(g.Trying, g.Age)
	case !c.WaitingSince.IsZero():
		waited := time.Since(c.WaitingSince)
		left -= waited - p.Gate.pausedFor(waited)
	}
	if left <= 0 {
		return false, true, Result{}, nil
	}
	if probe, err = r.probes(ctx, c, p, o); err != nil {
		err = r.again(ctx, TypeInfrastructure, 0, err, "cannot probe %s", p.Gate.sink)
	} else if !probe {
		waits = r.waits(ctx, c, p, o, left)
	}
	return probe, false, waits, err
}

// waits is the result of an effect whose sink is out or paused. left is what remains of its time while it is out.
//
// The end of a pause is told to who waits. They poll seldom by themselves, for the case that nobody has told them: a
// pause may last for days, and each poll stands in the run's history.
func (r *Runner) waits(ctx context.Context, c Call, p Policy, o outage, left time.Duration) Result {
	why, wait := SinkOut, min(r.Breaking.wait(o.waiting), left)
	if o.paused != nil {
		why, wait = SinkPaused, jitter(r.Breaking.MostWait)
	}
	r.Waits(ctx, c, p.Gate.sink, o.words(), why)
	r.count(ctx, c, Waits)
	return Result{State: Waits, Wait: wait, Held: true, Reason: p.Gate.sink + " " + o.words()}
}

// judge takes what the end of an attempt says about the sink. If that cannot be written, the next such end is.
func (r *Runner) judge(ctx context.Context, c Call, p Policy, probe bool, err error) {
	g := p.Gate
	if g == nil || r.Breakers == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	health, reason, said := healthOf(err)
	switch {
	case health == Answered:
		if !g.answered() {
			return
		}
		closed, err := r.Breakers.Close(ctx, g.sink)
		if err != nil {
			return
		}
		g.set(nil)
		if closed && r.Back != nil {
			r.Back(g.sink)
		}
	case health != Down && health != Denied:
	case probe:
		o, out := g.known()
		in := jitter(r.Breaking.probeIn(o.probes + 1))
		o.Failures = o.And(reason, said, p.about(c), c.EventID)
		if r.Breakers.Failed(ctx, g.sink, o.Failures, in) == nil && out {
			o.probes, o.probeAt = o.probes+1, time.Now().Add(in)
			g.set(&o)
		}
	default:
		failures, effects := g.failed(c, p, reason, said)
		if _, out := g.known(); out || health != Denied && effects < r.Breaking.Failures {
			return
		}
		in := jitter(r.Breaking.probeIn(0))
		if r.Breakers.Open(ctx, g.sink, failures, in) == nil {
			g.set(&outage{since: time.Now(), Failures: failures, probeAt: time.Now().Add(in)})
		}
	}
}

// watching is how often a process reads what others have seen.
const watching = time.Second

// Watch keeps the gates at what the breakers say, until ctx ends. waiting counts the runs that wait for each sink; it
// is asked while one is out.
func (r *Runner) Watch(ctx context.Context, gates []*Gate, waiting func(context.Context) (map[string]int, error)) {
	tick := time.NewTicker(watching)
	defer tick.Stop()
	for {
		r.Read(ctx, gates, waiting)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Read brings the gates to what the breakers and the pauses say. If they cannot be read, the gates stay as they are.
// When a pause is over, one process lets in the effects that waited.
func (r *Runner) Read(ctx context.Context, gates []*Gate, waiting func(context.Context) (map[string]int, error)) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := r.Breakers.All(ctx)
	if err != nil {
		return
	}
	open := map[string]breaker.Breaker{}
	for _, b := range list {
		if b.Open {
			open[b.Sink] = b
		}
	}
	spans, err := r.Pauses.OfSinks(ctx)
	if err != nil {
		return
	}
	var counts map[string]int
	if len(open) > 0 {
		if counts, err = waiting(ctx); err != nil {
			return
		}
	}
	for _, g := range gates {
		g.setPauses(spans)
		r.resume(ctx, g, spans)
		b, out := open[g.sink]
		if !out {
			g.set(nil)
			continue
		}
		g.set(&outage{since: b.Since, Failures: b.Failures, probes: b.Probes, probeAt: time.Now().Add(b.ProbeIn),
			waiting: counts[g.sink]})
	}
}
