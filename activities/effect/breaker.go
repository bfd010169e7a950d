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

// Health is the state of a sink according to one attempt. It is independent of the outcome of the effect.
type Health int

// The zero value means unknown: the attempt did not reach the sink, or the result gives no information about it.
const (
	_ Health = iota
	// Answered: the sink responded, with success or with a refusal of this effect.
	Answered
	// Down: the sink could not be reached, did not respond in time, or failed (5xx).
	Down
	// Denied: the sink rejected our credentials (401, 403), so every other request would fail too.
	Denied
)

// Breaking configures the circuit breaker: when pawl treats a sink as down, and how the waiting effects resume.
type Breaking struct {
	// Failures is the number of different effects that must fail in a row for the same reason to open the breaker.
	Failures int
	// FirstProbe is the delay before the first probe. The delay doubles with every failed probe, up to MaxProbe.
	FirstProbe, MaxProbe time.Duration
	// Polls is the maximum number of polls per second by all waiting runs together. The delay between two polls of one
	// run grows with the number of waiting runs, from LeastWait to MostWait.
	Polls               int
	LeastWait, MostWait time.Duration
	// Back is the number of waiting runs that resume per second after the sink has recovered.
	Back int
}

// DefaultBreaking is the configuration for production.
//
// A restart of a small API causes fewer than five failures. A worker on two cores runs about eighty effects per second,
// and ten polls per second cost about a tenth of that.
var DefaultBreaking = Breaking{
	Failures: 5, FirstProbe: 5 * time.Second, MaxProbe: 15 * time.Second,
	Polls: 10, LeastWait: 5 * time.Second, MostWait: 10 * time.Minute, Back: 80,
}

// probeIn returns the delay before the next probe. failed is the number of failed probes.
func (b Breaking) probeIn(failed int) time.Duration {
	return min(b.FirstProbe<<min(failed, 16), b.MaxProbe)
}

// wait returns the delay before a waiting run polls its sink's breaker again. waiting is the number of waiting runs.
func (b Breaking) wait(waiting int) time.Duration {
	return jitter(min(max(time.Duration(waiting)*time.Second/time.Duration(b.Polls), b.LeastWait), b.MostWait))
}

// outage describes a sink that is down or paused, as this process has observed or read it.
type outage struct {
	since time.Time
	breaker.Failures
	probes int
	// probeAt is the time of the next probe by the clock of this process.
	probeAt time.Time
	// waiting is the number of runs that wait for the sink.
	waiting int
	// paused is set while the sink is paused. No request is then sent, not even a probe, and the other fields are
	// unused.
	paused *pause.Pause
}

func (o outage) words() string {
	if o.paused != nil {
		return o.paused.Words()
	}
	return fmt.Sprintf("has been down since %s: %s", o.since.UTC().Format(time.RFC3339), o.Reason)
}

// Holding describes a sink that is paused or down.
type Holding struct {
	// Words is a predicate that follows the sink's name, e.g. "is paused since …".
	Words  string
	Paused bool
}

// Held returns the sinks that are paused or down. If a sink is both, it returns the pause, because no probe runs before
// the pause ends.
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

// health is this process's view of a sink. It combines its own attempts with the state that other processes have
// stored.
type health struct {
	mu  sync.Mutex
	out *outage
	// failures counts consecutive failures with the same reason. keys lists the keys of the effects that failed.
	failures breaker.Failures
	// events contains the event of each of them.
	keys   []string
	events []breaker.Affected
	// paused is the current pause, or nil. pauses lists all known pauses.
	paused *pause.Pause
	pauses []span
}

// outage returns the current pause or outage of the sink. It returns false if the sink is available.
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

// Out returns when and why the sink went down. It returns false if the sink is not down. It ignores pauses.
func (g *Gate) Out() (since time.Time, reason string, out bool) {
	o, out := g.known()
	return o.since, o.Reason, out
}

// known returns the outage of the sink. It ignores pauses.
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

// recovered records that another process has closed the breaker. The failures before that belong to the outage that has
// ended.
func (g *Gate) recovered() {
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	if g.health.out != nil {
		g.health.out = nil
		g.health.forget()
	}
}

// forget resets the count of failures.
func (h *health) forget() { h.failures, h.keys, h.events = breaker.Failures{}, nil, nil }

// answered resets the failure count after a response and reports whether the breaker is open.
func (g *Gate) answered() (out bool) {
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	g.health.forget()
	return g.health.out != nil
}

// failed counts a failure of the sink. It returns the consecutive failures with this reason, and the events of the
// different effects that failed, one for each effect. The breaker needs their number, because one effect can fail
// repeatedly for a reason that concerns only its customer.
func (g *Gate) failed(c Call, p Policy, reason, detail string) (breaker.Failures, []breaker.Affected) {
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	h := &g.health
	if h.failures.Reason != reason {
		h.forget()
	}
	h.failures = h.failures.And(reason, detail, p.about(c), c.EventID)
	if !slices.Contains(h.keys, c.Key) && len(h.keys) < mostKeys {
		h.keys, h.events = append(h.keys, c.Key), append(h.events, affected(c))
	}
	return h.failures, slices.Clone(h.events)
}

// mostKeys is the maximum length of the list of failed effects. It is higher than any Breaking.Failures.
const mostKeys = 100

// probes reports whether this effect is the next probe of a sink that is down. Effects of accounts with failures probe
// later than effects of other accounts, because the sink may fail only for those accounts.
func (r *Runner) probes(ctx context.Context, c Call, p Policy, o outage) (bool, error) {
	due := o.probeAt
	if slices.Contains(o.About, p.about(c)) && o.waiting > len(o.Events) {
		due = due.Add(2 * r.Breaking.LeastWait)
	}
	if o.paused != nil || time.Now().Before(due) {
		return false, nil
	}
	lease := p.Timeout + claiming + recording // if the worker dies, the next probe starts after this time
	probe, err := r.Breakers.Probe(ctx, p.Gate.sink, lease)
	if err == nil {
		o.probeAt = time.Now().Add(lease)
		p.Gate.set(&o)
	}
	return probe, err
}

// turn is the result of [Runner.hold]. If waits is not nil, the effect waits. Otherwise the effect is attempted.
type turn struct {
	// waits is the result of an effect that waits, or nil.
	waits *Result
	// probe is set if the attempt tests whether the sink has recovered.
	probe bool
	// last is set if the retry time is used up, so that this attempt is the last one.
	last bool
}

// hold decides whether an effect waits for its sink. If the sink is available, or if the ledger already contains the
// final state of the effect, hold returns the zero turn, and the caller continues. If the sink is down, the effect
// probes the sink, makes its last attempt, or waits. If the sink is paused, the effect waits, and its retry time stops.
func (r *Runner) hold(ctx context.Context, c Call, p Policy) (turn, error) {
	o, out := p.Gate.outage()
	if !out {
		return turn{}, nil
	}
	found, err := r.Ledger.Read(ctx, []string{c.Key})
	if err != nil {
		return turn{}, r.retryLater(ctx, TypeInfrastructure, 0, err, "cannot read %s", c.Key)
	}
	g, known := found[c.Key]
	tried := known && c.Round <= g.Round
	left := p.Retries.MaxElapsed
	switch {
	case tried && g.State != ledger.Claimed && (g.State != ledger.Failed || g.Class != ledger.Transient):
		return turn{}, nil
	case o.paused != nil:
		waits := r.waits(ctx, c, p, o, 0)
		return turn{waits: &waits}, nil
	case tried:
		left = p.left(g.Trying, g.Age)
	case !c.WaitingSince.IsZero():
		waited := time.Since(c.WaitingSince)
		left -= waited - p.Gate.pausedFor(waited)
	}
	if left <= 0 {
		return turn{last: true}, nil
	}
	probe, err := r.probes(ctx, c, p, o)
	if err != nil {
		return turn{}, r.retryLater(ctx, TypeInfrastructure, 0, err, "cannot probe %s", p.Gate.sink)
	}
	if probe {
		return turn{probe: true}, nil
	}
	waits := r.waits(ctx, c, p, o, left)
	return turn{waits: &waits}, nil
}

// waits returns the result of an effect that waits for its sink. left is the remaining retry time.
//
// When a pause ends, the waiting runs get a signal. They also poll, in case the signal is lost. The delay between two
// polls is long: a pause may last for days, and each poll adds events to the history of the run.
func (r *Runner) waits(ctx context.Context, c Call, p Policy, o outage, left time.Duration) Result {
	why, wait := SinkOut, min(r.Breaking.wait(o.waiting), left)
	if o.paused != nil {
		why, wait = SinkPaused, jitter(r.Breaking.MostWait)
	} else {
		r.affects(ctx, p.Gate, affected(c))
	}
	r.Waits(ctx, c, p.Gate.sink, o.words(), why)
	r.count(ctx, c, Waits)
	return Result{State: Waits, Wait: wait, Held: true, Reason: p.Gate.sink + " " + o.words()}
}

// judge updates the circuit breaker after an attempt. If the update cannot be stored, the next attempt repeats it.
func (r *Runner) judge(ctx context.Context, c Call, p Policy, probe bool, err error) {
	g := p.Gate
	if g == nil || r.Breakers == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	health, reason, detail := healthOf(err)
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
		o.Failures = o.And(reason, detail, p.about(c), c.EventID)
		if r.Breakers.Failed(ctx, g.sink, o.Failures, in) == nil && out {
			o.probes, o.probeAt = o.probes+1, time.Now().Add(in)
			g.set(&o)
		}
		r.affects(ctx, g, affected(c))
	default:
		failures, events := g.failed(c, p, reason, detail)
		if _, out := g.known(); out {
			r.affects(ctx, g, affected(c))
			return
		}
		if health != Denied && len(events) < r.Breaking.Failures {
			return
		}
		in := jitter(r.Breaking.probeIn(0))
		if r.Breakers.Open(ctx, g.sink, failures, in) == nil {
			g.set(&outage{since: time.Now(), Failures: failures, probeAt: time.Now().Add(in)})
			r.affects(ctx, g, events...)
		}
	}
}

// watching is the interval at which a process reads the stored circuit breakers and pauses.
const watching = time.Second

// Watch calls Read until ctx ends. waiting returns the number of waiting runs per sink; Watch calls it only while a
// sink is down.
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

// Read updates the gates from the stored circuit breakers and pauses. If the read fails, it does not change the gates.
// When a pause ends, exactly one process resumes the waiting effects.
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
			g.recovered()
			continue
		}
		g.set(&outage{since: b.Since, Failures: b.Failures, probes: b.Probes, probeAt: time.Now().Add(b.ProbeIn),
			waiting: counts[g.sink]})
	}
}
