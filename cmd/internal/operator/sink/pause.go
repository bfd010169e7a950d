package sink

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
)

// PauseResult lists the targets that were paused or resumed.
type PauseResult struct {
	Kind string `json:"kind"`
	// Names lists the targets that changed. A sink that is configured per mode has two names.
	Names  []string `json:"names"`
	Paused bool     `json:"paused"`
	// Waiting counts the waiting runs of a sink, or the waiting events of a source.
	Waiting int `json:"waiting"`
}

// The help texts for pausing a sink or a source.
const (
	PauseReason = "the reason, for the audit trail and the lists of paused work (required)"

	PauseLong = `A pause lasts until you resume the work, also after restarts. All processes apply it within seconds. Effects in
progress end.

The effects of a paused sink wait. They use up neither attempts nor retry time. Deliveries to a paused source are
accepted and stored as before. Their runs do not start, and neither do the runs of scheduled actions.`
	ResumeLong = `Waiting effects and runs continue gradually, eighty per second.`
)

const (
	namesSink = "\nNAME is the name in the list of pawl sinks. If a sink is configured per mode, \"finance\" selects both modes and " +
		"\"finance:live\" one."
)

// Pause implements `pawl sinks pause`.
var Pause = decide.Verb{
	Name: "pause-sink", Command: "sinks pause", Target: "NAME", Short: "Pause a sink", Rule: PauseRule(decide.Sink,
		true),
	Previews: true, ReasonHelp: PauseReason, Long: "Pause a sink.\n" + PauseLong + namesSink,
}

// paused is the target of a decision that pauses or resumes.
type paused struct {
	place string // sink or source
	kind  pause.Kind
	names []string
}

// PauseRule returns the rule that pauses or resumes a sink or a source. The effects of a paused sink wait. The wait
// uses up neither their attempts nor their retry time. A paused source still accepts and stores deliveries, but their
// runs do not start.
func PauseRule(place string, begins bool) decide.Rule[paused, *PauseResult] {
	return decide.Rule[paused, *PauseResult]{
		Find: func(ctx context.Context, d *decide.Decision) (p paused, _ string, err error) {
			p = paused{place: place, kind: pause.Sink}
			err = p.find(ctx, d, begins)
			return p, d.Verb + "/" + d.Target, err
		},
		Check: func(ctx context.Context, d *decide.Decision, p paused) (*decide.Change, error) {
			return p.change(ctx, d, begins)
		},
		Act: func(ctx context.Context, d *decide.Decision, p paused, rec decide.Recorded) (string, *PauseResult,
			error) {
			res := new(PauseResult)
			if err := rec.Read(rec.After, res); err != nil {
				return "", nil, err
			}
			does := map[bool][2]string{true: {"is paused", "are paused"}, false: {"is resumed", "are resumed"}}[begins]
			waits, n, err := p.waiting(ctx, d.Operator.DB, res.Names)
			res.Waiting = n
			return fmt.Sprintf("%s %s; %s now", strings.Join(res.Names, " and "), does[min(len(res.Names), 2)-1],
				waits), res, err
		},
		Forecast: func(ctx context.Context, d *decide.Decision, p paused, made *decide.Preview) error {
			waits, _, err := p.waiting(ctx, d.Operator.DB, p.names)
			made.Message = fmt.Sprintf("it affects %s; %s now", strings.Join(p.names, " and "), waits)
			return err
		},
	}
}

// Change pauses or resumes the targets that have another state.
func (p paused) change(ctx context.Context, d *decide.Decision, begins bool) (*decide.Change, error) {
	now, err := pause.Now(ctx, d.Operator.DB)
	if err != nil {
		return nil, err
	}
	already := d.Refuse("is not paused")
	left := slices.DeleteFunc(slices.Clone(p.names), func(name string) bool {
		known, is := pause.Find(now, p.kind, name)
		if is && begins {
			already = d.Refuse("%s", known.Words())
		}
		return is == begins
	})
	if len(left) == 0 {
		return nil, already
	}
	return &decide.Change{
		Target: d.Target, Before: map[string]any{"paused": !begins},
		After: map[string]any{"kind": p.place, "names": left, "paused": begins},
		Do: func(ctx context.Context, tx pgx.Tx) (err error) {
			for _, name := range left {
				if begins {
					_, err = pause.New(tx).Begin(ctx, pause.Pause{Kind: p.kind, Name: name, Actor: d.Actor,
						Reason: d.Reason})
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

// Find returns the names of the target. A sink that is configured per mode has two names. A target that was removed
// from the configuration can still be resumed.
func (p *paused) find(ctx context.Context, d *decide.Decision, begins bool) error {
	name, places := d.Target, d.Operator.Places[p.place]
	if p.place == decide.Source {
		p.kind = pause.Source
	}
	for _, known := range places {
		if known == name || p.place == decide.Sink && (known == name+":live" || known == name+":test") {
			p.names = append(p.names, known)
		}
	}
	if len(p.names) > 0 {
		return nil
	}
	if !begins {
		now, err := pause.Now(ctx, d.Operator.DB)
		if _, is := pause.Find(now, p.kind, name); is || err != nil {
			p.names = []string{name}
			return err
		}
	}
	if len(places) == 0 {
		return decide.Unknownf("unknown %s %q: the configuration does not contain it", p.place, name)
	}
	return decide.Unknownf("unknown %s %q: write one of %s", p.place, name, strings.Join(places, ", "))
}
