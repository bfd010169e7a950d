package receipt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// ErrOutrun means that a later workflow task has already written another status. This happens if a worker was suspended
// for longer than its task, or if the run was reset. Nothing was changed.
var ErrOutrun = errors.New("a later workflow task has written the status")

const transitionSQL = `
with held as materialized (
    select id, status, coalesce(fence > $6, false) as outrun from receipts where id = $1 for no key update
), moved as (
    update receipts r
       set status = $2, reason = $3, last_error = $4, updated_at = now(), fence = greatest(r.fence, $6),
           dispatch_at = case when $2 = 'received' then now() else r.dispatch_at end, waits = $7::jsonb,
           -- A start that Temporal refused is still the one that was asked for.
           rerun = case when $2 in ('received', 'needs_review') then r.rerun end
      from held where r.id = held.id and held.status = any($5::text[]) and not held.outrun
    returning r.id
)
select held.status, held.outrun, exists (select from moved) as moved from held`

// Transition sets the status, the reason and the last error of a receipt. Reason and error may be "". A receipt that
// becomes received is due for dispatch at once. If the graph does not allow the status, Transition changes nothing and
// returns a *[TransitionError]. If the receipt already has the status, Transition updates the reason and the error, so
// that a call may be repeated.
func (s *Store) Transition(ctx context.Context, id string, to Status, reason, lastError string) error {
	return s.TransitionAsOf(ctx, time.Time{}, id, to, reason, lastError)
}

// TransitionAsOf is Transition for a workflow task that began at asOf. If a later task has written the status,
// TransitionAsOf changes nothing and returns [ErrOutrun]. With the zero time, the change is never rejected as outdated.
func (s *Store) TransitionAsOf(ctx context.Context, asOf time.Time, id string, to Status, reason,
	lastError string) error {
	return s.transition(ctx, asOf, id, to, reason, lastError, nil)
}

// Waits describes a parked run: the decisions that it accepts, and its effects.
type Waits struct {
	// Decisions lists the decisions that the run accepts.
	Decisions []string `json:"decisions"`
	// Effects lists the open effects that a decision can change.
	Effects []OpenEffect `json:"effects,omitempty"`
	// Steps lists the effects that the run has reached, in order. It is empty if the run parked before its first
	// effect.
	Steps []Step `json:"steps,omitempty"`
	// Undoing is set if the run compensates its effects or has compensated them.
	Undoing bool `json:"undoing,omitempty"`
	// Left is why the run only relays the event. It is nil if the run also has a flow.
	Left *Left `json:"left,omitempty"`
}

// Left is the reason why a run ignores its event, as a code and words.
type Left struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// Keys returns the keys of the open effects, never nil.
func (w Waits) Keys() []string {
	keys := make([]string, len(w.Effects))
	for i, e := range w.Effects {
		keys[i] = e.Key
	}
	return keys
}

// Step is an effect that a parked run has reached.
type Step struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	// Skipped is set if a person decided that this run skips the effect.
	Skipped bool `json:"skipped,omitempty"`
	// Undecided is set for a delivery if the condition of its destination could not be evaluated.
	Undecided bool `json:"undecided,omitempty"`
}

// OpenEffect is an effect that a parked run needs a decision about.
type OpenEffect struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	// State is the outcome of the effect in the run. It is "" if the effect was not begun.
	State string `json:"state"`
	// Uncertain is set if the effect may or may not have happened. ByHand is set if a person can record that it has
	// happened.
	Uncertain bool `json:"uncertain,omitempty"`
	ByHand    bool `json:"by_hand,omitempty"`
}

// Park is like [Store.TransitionAsOf], for a run that changes to needs_review or dead and then waits for a decision.
func (s *Store) Park(ctx context.Context, asOf time.Time, id string, to Status, reason string, waits Waits) error {
	return s.transition(ctx, asOf, id, to, reason, reason, &waits)
}

func (s *Store) transition(ctx context.Context, asOf time.Time, id string, to Status, reason, lastError string,
	waits *Waits) error {
	u, err := ParseID(id)
	if err != nil {
		return err
	}
	doing := "move receipt " + id + " to " + string(to)
	held, err := schema.One[struct {
		Status        Status
		Outrun, Moved bool
	}](ctx, s.db, doing, transitionSQL, [16]byte(u), string(to), reason, lastError, MayPrecede(to), Fence(asOf), waits)
	switch {
	case err != nil:
		return err
	case held.Outrun:
		return fmt.Errorf("%s: %w", doing, ErrOutrun)
	case !held.Moved:
		return fmt.Errorf("%s: %w", doing, &TransitionError{From: held.Status, To: to})
	}
	return nil
}

// Fence returns asOf in the form that the database stores: null for the zero time.
func Fence(asOf time.Time) *time.Time {
	if asOf.IsZero() {
		return nil
	}
	return &asOf
}
