package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

// The kinds that can be paused, as commands name them. A consumer is a sink to the stores.
const (
	Sink     = "sink"
	Consumer = "consumer"
	Source   = "source"
)

// PauseResult names the paused, or those that go on.
type PauseResult struct {
	Kind string `json:"kind"`
	// Names are those that were changed: two for a sink that is per mode.
	Names  []string `json:"names"`
	Paused bool     `json:"paused"`
	// Waiting counts what waits: the runs of a sink, the events of a source.
	Waiting int `json:"waiting"`
}

// paused names what a decision pauses, or lets go on.
type paused struct {
	kind  pause.Kind
	names []string
}

const (
	pauseLong = `A pause lasts until pawl resume, also over restarts. All processes heed it within seconds. Effects under way end.

The effects of a paused sink, or consumer, wait on a timer that names it: they spend no tries and none of their time.
Deliveries to a paused source are answered and kept as ever. Their runs are not begun, and neither are those of the
clock.`
	resumeLong = `Waiting effects and runs are let in bit by bit, eighty a second.`
)

// pauseVerbs are pausing and resuming a sink, a consumer and a source.
func pauseVerbs() (rows []Verb) {
	named := map[string]string{
		Sink:     `NAME is as pawl sinks shows it. If a sink is per mode, "finance" stands for both, "finance:live" for one.`,
		Consumer: "NAME is the consumer's in the configuration.", Source: "NAME is the source's in the configuration.",
	}
	for _, kind := range []string{Sink, Consumer, Source} {
		begin, end := "Let the work of a "+kind+" wait", "Let the work of a "+kind+" go on"
		rows = append(rows, Verb{
			Name: "pause-" + kind, Command: "pause " + kind, Target: "NAME", Short: begin, rule: pauseRule(kind, true),
			Previews: true,
			Why:      "why, for the audit trail and for whoever finds it waiting (required)", Long: begin + ".\n" +
				pauseLong + "\n" + named[kind],
		}, Verb{
			Name: "resume-" + kind, Command: "resume " + kind, Target: "NAME", Short: end,
			rule: pauseRule(kind, false), Previews: true,
			Long: end + ".\n" + resumeLong + "\n" + named[kind],
		})
	}
	return rows
}

// pauseRule pauses a sink, a consumer or a source, or lets it go on. The effects of a paused sink wait without a try,
// and their time does not go on. A paused source takes and keeps its deliveries; their runs are not started.
func pauseRule(kind string, begins bool) rule[paused, *PauseResult] {
	return rule[paused, *PauseResult]{
		find: func(ctx context.Context, d *Decision) (paused, string, error) {
			p, err := findPaused(ctx, d, kind, begins)
			return p, d.Verb + "/" + d.Target, err
		},
		check: func(ctx context.Context, d *Decision, p paused) (*change, error) {
			return p.change(ctx, d, kind, begins)
		},
		answer: func(ctx context.Context, d *Decision, p paused, rec recorded) (string, *PauseResult,
			error) {
			res := new(PauseResult)
			if err := rec.read(rec.After, res); err != nil {
				return "", nil, err
			}
			counts, err := waitersOf(ctx, d.o.DB, p.kind)
			for _, name := range res.Names {
				res.Waiting += counts[name]
			}
			return fmt.Sprintf("%s %s; %s now", strings.Join(res.Names, " and "), goesOrWaits(begins, len(res.Names)),
				waiters(kind, res.Waiting)), res, err
		},
		forecast: func(ctx context.Context, d *Decision, p paused, made *Preview) error {
			counts, err := waitersOf(ctx, d.o.DB, p.kind)
			n := 0
			for _, name := range p.names {
				n += counts[name]
			}
			made.Says = fmt.Sprintf("it is about %s; %s now", strings.Join(p.names, " and "), waiters(kind, n))
			return err
		},
	}
}

// change begins the pauses that are missing, or ends the existing ones.
func (p paused) change(ctx context.Context, d *Decision, kind string, begins bool) (*change, error) {
	now, err := pause.Now(ctx, d.o.DB)
	if err != nil {
		return nil, err
	}
	already := d.refuse("is not paused")
	left := slices.DeleteFunc(slices.Clone(p.names), func(name string) bool {
		known, is := pause.Find(now, p.kind, name)
		if is && begins {
			already = d.refuse("%s", known.Words())
		}
		return is == begins
	})
	if len(left) == 0 {
		return nil, already
	}
	return &change{
		target: d.Target, before: map[string]any{"paused": !begins},
		after: map[string]any{"kind": kind, "names": left, "paused": begins},
		do: func(ctx context.Context, tx pgx.Tx) (err error) {
			for _, name := range left {
				if begins {
					_, err = pause.New(tx).Begin(ctx, pause.Pause{Kind: p.kind, Name: name, Who: d.Who, Why: d.Why})
				} else {
					_, err = pause.New(tx).End(ctx, p.kind, name)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}, nil
}

func goesOrWaits(paused bool, n int) string {
	switch {
	case paused && n == 1:
		return "is paused"
	case paused:
		return "are paused"
	case n == 1:
		return "goes on"
	}
	return "go on"
}

// waiters says how much waits.
func waiters(kind string, n int) string {
	unit := "run"
	if kind == Source {
		unit = "event"
	}
	if n == 1 {
		return "1 " + unit + " waits"
	}
	return fmt.Sprintf("%d %ss wait", n, unit)
}

// findPaused finds what a name stands for: a sink that is per mode has two, one for each mode. The end of a pause is
// also for what the configuration has no more.
func findPaused(ctx context.Context, d *Decision, kind string, begins bool) (paused, error) {
	p, name := paused{kind: pause.Sink}, d.Target
	switch kind {
	case Source:
		p.kind = pause.Source
	case Consumer:
		name = workflows.SinkConsumers + ":" + name
	}
	for _, known := range d.o.Places[kind] {
		if known == name || kind == Sink && (known == name+":live" || known == name+":test") {
			p.names = append(p.names, known)
		}
	}
	if len(p.names) > 0 {
		return p, nil
	}
	if !begins {
		now, err := pause.Now(ctx, d.o.DB)
		if _, is := pause.Find(now, p.kind, name); is || err != nil {
			p.names = []string{name}
			return p, err
		}
	}
	if len(d.o.Places[kind]) == 0 {
		return p, unknown("there is no %s %q: the configuration has none", kind, name)
	}
	return p, unknown("there is no %s %q: write one of %s", kind, name, strings.Join(d.o.Places[kind], ", "))
}

// waitersOf counts what waits, by sink or by source.
func waitersOf(ctx context.Context, db *pgxpool.Pool, kind pause.Kind) (map[string]int, error) {
	if kind == pause.Source {
		return receipt.NewReader(db).SourceWaiters(ctx)
	}
	return run.SinkWaiters(ctx, db)
}
