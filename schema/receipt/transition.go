package receipt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// ErrOutrun means that a later workflow task has already written another status: the worker was suspended for longer
// than its task, or the run was reset. Nothing is changed.
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

// Transition sets a receipt's status, with its reason and last error (possibly ""). A receipt that becomes received is
// due for dispatch at once. A status that the graph does not allow changes nothing and returns a *[TransitionError]. A
// receipt with the same status takes the new reason and error, so that the call may be repeated.
func (s *Store) Transition(ctx context.Context, id string, to Status, reason, lastError string) error {
	return s.TransitionAsOf(ctx, time.Time{}, id, to, reason, lastError)
}

// TransitionAsOf is Transition by a workflow task that began at asOf. If a later task has written the status, it
// changes nothing and returns [ErrOutrun]. The zero time is never too old.
func (s *Store) TransitionAsOf(ctx context.Context, asOf time.Time, id string, to Status, reason,
	lastError string) error {
	return s.transition(ctx, asOf, id, to, reason, lastError, nil)
}

// Waits describes a parked run: the decisions that it accepts, and its effects.
type Waits struct {
	// Decisions lists the decisions that the run accepts.
	Decisions []string `json:"decisions"`
	// Effects lists the open effects that a decision can apply to.
	Effects []OpenEffect `json:"effects,omitempty"`
	// Steps lists the effects that the run has reached, in order. It is empty if the run waits before its first effect.
	Steps []Step `json:"steps,omitempty"`
	// Undoing: the run compensates its effects, or has done so.
	Undoing bool `json:"undoing,omitempty"`
	// Left is why the run only relays the event; it is nil if the run does more.
	Left *Left `json:"left,omitempty"`
}

// Left is why a run ignores its event: a code and words.
type Left struct {
	Code string `json:"code"`
	Why  string `json:"why"`
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
	// Skipped: a person decided that this run skips the effect.
	Skipped bool `json:"skipped,omitempty"`
}

// OpenEffect is an effect that a parked run needs a decision about.
type OpenEffect struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	// State is the effect's outcome in the run, or "" if it was not begun.
	State string `json:"state"`
	// Uncertain: the effect may or may not have happened. ByHand: a person can record that it has.
	Uncertain bool `json:"uncertain,omitempty"`
	ByHand    bool `json:"by_hand,omitempty"`
}

// Park is [Store.TransitionAsOf] to needs_review or dead, for a run that then waits for a decision.
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

// Fence returns asOf as the database stores it: null for the zero time.
func Fence(asOf time.Time) *time.Time {
	if asOf.IsZero() {
		return nil
	}
	return &asOf
}
