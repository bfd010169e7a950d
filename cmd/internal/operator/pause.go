package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/pause"
)

// Pauser pauses sinks and sources, and lets them go on. All of its fields are required.
type Pauser struct {
	Pauses *pause.Store
	Audit  *audit.Store
	// Names are those that the configuration has, of sinks (a consumer's begins with "consumers:") and of sources.
	Names map[pause.Kind][]string
}

// Decided is what a person says to a decision: who, why and, where it is to be told from another that says the same, an
// ID of the request.
type Decided struct{ Who, Why, RequestID string }

// NothingToPauseError means that the configuration has no sink, consumer or source of that name.
type NothingToPauseError struct {
	Kind  pause.Kind
	Name  string
	Names []string
}

func (e *NothingToPauseError) Error() string {
	if len(e.Names) == 0 {
		return fmt.Sprintf("there is no %s %q: the configuration has none", e.Kind, e.Name)
	}
	return fmt.Sprintf("there is no %s %q: write one of %s", e.Kind, e.Name, strings.Join(e.Names, ", "))
}

// AlreadyError means that a pause would change nothing, or the end of one.
type AlreadyError struct {
	Kind pause.Kind
	Name string
	// Paused is the pause that is there already; nil where none is.
	Paused *pause.Pause
}

func (e *AlreadyError) Error() string {
	if e.Paused == nil {
		return fmt.Sprintf("%s %s is not paused", e.Kind, e.Name)
	}
	return fmt.Sprintf("%s %s %s", e.Kind, e.Name, e.Paused.Words())
}

// Find returns the full names that are meant by one: a sink that is per mode has two, one for each mode.
func (p *Pauser) Find(kind pause.Kind, name string) (names []string, err error) {
	for _, known := range p.Names[kind] {
		if known == name || kind == pause.Sink && (known == name+":live" || known == name+":test") {
			names = append(names, known)
		}
	}
	if len(names) == 0 {
		return nil, &NothingToPauseError{Kind: kind, Name: name, Names: p.Names[kind]}
	}
	return names, nil
}

// Pause pauses a sink or a source, and returns the names that are paused by it. A call that is repeated with its request
// ID changes nothing and says the same. The error is a [*NothingToPauseError] or an [*AlreadyError] where nothing is to
// be done.
//
// The effects of a paused sink wait, without a try and without their time going on; what is under way ends. Of a paused
// source, deliveries are taken and kept as ever, and their runs are not started; those that have been go on.
func (p *Pauser) Pause(ctx context.Context, kind pause.Kind, name string, d Decided) (names []string, err error) {
	return p.decide(ctx, "pause", kind, name, d, func(ctx context.Context, pauses *pause.Store, name string) error {
		_, err := pauses.Begin(ctx, pause.Pause{Kind: kind, Name: name, Who: d.Who, Why: d.Why})
		return err
	})
}

// Resume ends a pause; it is like [Pauser.Pause] otherwise. What has waited is let in bit by bit.
func (p *Pauser) Resume(ctx context.Context, kind pause.Kind, name string, d Decided) (names []string, err error) {
	return p.decide(ctx, "resume", kind, name, d, func(ctx context.Context, pauses *pause.Store, name string) error {
		_, err := pauses.End(ctx, kind, name)
		return err
	})
}

// decide does to each of the names what is to be done, in one commit with its record.
func (p *Pauser) decide(ctx context.Context, action string, kind pause.Kind, name string, d Decided, do func(context.Context, *pause.Store, string) error) (names []string, err error) {
	if err := accountable(d.Who, d.Why); err != nil {
		return nil, err
	}
	names, err = p.Find(kind, name)
	if action == "resume" && err != nil { // what the configuration has no more can still be let go on
		now, failed := p.Pauses.Now(ctx)
		if _, paused := pause.Find(now, kind, name); failed == nil && paused {
			names, err = []string{name}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	request := action + "/" + string(kind) + "/" + name + "/" + cmp.Or(d.RequestID, uuid.NewString())
	known, err := p.known(ctx, request, names)
	if err != nil || known {
		return names, err
	}
	left, err := p.left(ctx, action, kind, names)
	if err != nil {
		return nil, err
	}
	for _, name := range left {
		if _, err := p.Audit.AppendWith(ctx, audit.Action{
			RequestID: request + "/" + name, Actor: d.Who, Action: action, Target: string(kind) + " " + name, Reason: d.Why,
			Before: map[string]any{"paused": action == "resume"}, After: map[string]any{"paused": action == "pause"},
		}, func(ctx context.Context, tx pgx.Tx) error { return do(ctx, pause.New(tx), name) }); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// known reports whether a request has been followed for all of the names.
func (p *Pauser) known(ctx context.Context, request string, names []string) (bool, error) {
	for _, name := range names {
		if recorded, err := p.Audit.Recorded(ctx, request+"/"+name); err != nil || recorded == nil {
			return false, err
		}
	}
	return true, nil
}

// left are those of the names to which something is to be done: one at least, where the error is nil.
func (p *Pauser) left(ctx context.Context, action string, kind pause.Kind, names []string) ([]string, error) {
	now, err := p.Pauses.Now(ctx)
	if err != nil {
		return nil, err
	}
	already := &AlreadyError{Kind: kind, Name: names[0]}
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		held, is := pause.Find(now, kind, name)
		if is && action == "pause" {
			already.Name, already.Paused = name, &held
		}
		return is == (action == "pause")
	})
	if len(left) == 0 {
		return nil, already
	}
	return left, nil
}
