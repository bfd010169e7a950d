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

// The kinds of targets that can be paused. The stores treat a consumer as a sink.
const (
	Sink     = "sink"
	Consumer = "consumer"
	Source   = "source"
)

// PauseResult lists the targets that were paused or resumed.
type PauseResult struct {
	Kind string `json:"kind"`
	// Names lists the targets that changed. A sink that is configured per mode has two.
	Names  []string `json:"names"`
	Paused bool     `json:"paused"`
	// Waiting counts the waiting runs of a sink, or the waiting events of a source.
	Waiting int `json:"waiting"`
}

const (
	pauseLong = `A pause lasts until pawl resume, also over restarts. All processes heed it within seconds. Effects under way end.

The effects of a paused sink, or consumer, wait on a timer that names it: they spend no tries and none of their time.
Deliveries to a paused source are answered and kept as ever. Their runs are not begun, and neither are those of the
clock.`
	resumeLong = `Waiting effects and runs are let in bit by bit, eighty a second.`
)

// pauseVerbs returns the verbs that pause and resume sinks, consumers and sources.
func pauseVerbs() (rows []Verb) {
	named := map[string]string{
		Sink:     `NAME is as pawl sinks shows it. If a sink is per mode, "finance" stands for both, "finance:live" for one.`,
		Consumer: "NAME is the consumer's in the configuration.", Source: "NAME is the source's in the configuration.",
	}
	for _, kind := range []string{Sink, Consumer, Source} {
		begin, end := "Let the work of a "+kind+" wait", "Let the work of a "+kind+" go on"
		rows = append(rows, Verb{
			Name: "pause-" + kind, Command: "pause " + kind, Target: "NAME", Short: begin, rule: pauseRule,
			Previews: true,
			Why:      "why, for the audit trail and for whoever finds it waiting (required)", Long: begin + ".\n" +
				pauseLong + "\n" + named[kind],
		}, Verb{
			Name: "resume-" + kind, Command: "resume " + kind, Target: "NAME", Short: end,
			rule: pauseRule, Previews: true,
			Long: end + ".\n" + resumeLong + "\n" + named[kind],
		})
	}
	return rows
}

// paused is the target of a decision that pauses or resumes.
type paused struct {
	place  string // sink, consumer or source
	kind   pause.Kind
	names  []string
	begins bool
}

// pauseRule pauses or resumes a sink, a consumer or a source. The effects of a paused sink wait. They use up neither
// their attempts nor their retry time. A paused source still accepts and stores deliveries, but their runs do not
// start.
var pauseRule = rule[paused, *PauseResult]{
	find: func(ctx context.Context, d *Decision) (p paused, _ string, err error) {
		does, place, _ := strings.Cut(d.Verb, "-")
		p = paused{place: place, kind: pause.Sink, begins: does == "pause"}
		err = p.find(ctx, d)
		return p, d.Verb + "/" + d.Target, err
	},
	check: func(ctx context.Context, d *Decision, p paused) (*change, error) {
		now, err := pause.Now(ctx, d.o.DB)
		if err != nil {
			return nil, err
		}
		already := d.refuse("is not paused")
		left := slices.DeleteFunc(slices.Clone(p.names), func(name string) bool {
			known, is := pause.Find(now, p.kind, name)
			if is && p.begins {
				already = d.refuse("%s", known.Words())
			}
			return is == p.begins
		})
		if len(left) == 0 {
			return nil, already
		}
		return &change{
			target: d.Target, before: map[string]any{"paused": !p.begins},
			after: map[string]any{"kind": p.place, "names": left, "paused": p.begins},
			do: func(ctx context.Context, tx pgx.Tx) (err error) {
				for _, name := range left {
					if p.begins {
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
	},
	answer: func(ctx context.Context, d *Decision, p paused, rec recorded) (string, *PauseResult, error) {
		res := new(PauseResult)
		if err := rec.read(rec.After, res); err != nil {
			return "", nil, err
		}
		does := map[bool][2]string{true: {"is paused", "are paused"}, false: {"goes on", "go on"}}[p.begins]
		waits, n, err := p.waiting(ctx, d.o.DB, res.Names)
		res.Waiting = n
		return fmt.Sprintf("%s %s; %s now", strings.Join(res.Names, " and "), does[min(len(res.Names), 2)-1], waits),
			res, err
	},
	forecast: func(ctx context.Context, d *Decision, p paused, made *Preview) error {
		waits, _, err := p.waiting(ctx, d.o.DB, p.names)
		made.Says = fmt.Sprintf("it is about %s; %s now", strings.Join(p.names, " and "), waits)
		return err
	},
}

// waiting counts the waiting runs of sinks, or the waiting events of a source.
func (p paused) waiting(ctx context.Context, db *pgxpool.Pool, names []string) (says string, n int, err error) {
	unit := "run"
	var counts map[string]int
	if p.kind == pause.Source {
		unit = "event"
		counts, err = receipt.NewReader(db).SourceWaiters(ctx)
	} else {
		counts, err = run.SinkWaiters(ctx, db)
	}
	for _, name := range names {
		n += counts[name]
	}
	if n == 1 {
		return "1 " + unit + " waits", n, err
	}
	return fmt.Sprintf("%d %ss wait", n, unit), n, err
}

// find sets the names of the target. A sink that is configured per mode has two names. A pause can be ended after its
// target was removed from the configuration.
func (p *paused) find(ctx context.Context, d *Decision) error {
	name, places := d.Target, d.o.Places[p.place]
	switch p.place {
	case Source:
		p.kind = pause.Source
	case Consumer:
		name = workflows.SinkConsumers + ":" + name
	}
	for _, known := range places {
		if known == name || p.place == Sink && (known == name+":live" || known == name+":test") {
			p.names = append(p.names, known)
		}
	}
	if len(p.names) > 0 {
		return nil
	}
	if !p.begins {
		now, err := pause.Now(ctx, d.o.DB)
		if _, is := pause.Find(now, p.kind, name); is || err != nil {
			p.names = []string{name}
			return err
		}
	}
	if len(places) == 0 {
		return unknown("there is no %s %q: the configuration has none", p.place, name)
	}
	return unknown("there is no %s %q: write one of %s", p.place, name, strings.Join(places, ", "))
}
