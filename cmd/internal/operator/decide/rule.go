package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/audit"
)

// Change describes the change to the database and its audit record.
type Change struct {
	Target        string
	Before, After map[string]any
	// Do runs in the transaction that writes the audit record. It returns a [RefusedError] if the target has changed
	// since the check. nil means no change.
	Do func(ctx context.Context, tx pgx.Tx) error
	// Refused, if set, runs after Do has failed and its transaction was rolled back.
	Refused func(ctx context.Context)
	// Moved, if set, returns a refusal if the target has changed since Find.
	Moved func(ctx context.Context) error
	// Confirmed, if set, runs before Do if a second person confirms the decision. first is the name of the first
	// person.
	Confirmed func(first string)
	// Judges is set if the decision is about live money.
	Judges bool
	// Money is the amount of the target, in minor units by currency.
	Money map[string]int64
	// State contains all values that the decision depends on. If it is nil, the states before and after the change
	// are used.
	State any
	// asks is set if the change only stores the request for a second person's confirmation.
	asks bool
}

// Recorded is a decision with its audit record.
type Recorded struct {
	*audit.Recorded
	// Key is the ID of the audit record.
	Key string
	// Repeated is set if an earlier call wrote the record.
	Repeated bool
	warning  string
}

// Act returns the answer to the decision without its result.
func (r Recorded) answer(d *Decision) *Answer {
	return &Answer{Verb: d.Verb, Target: r.Target, Request: d.Request, Actor: r.Actor, Repeated: r.Repeated,
		Warning: r.warning}
}

// Read decodes the state before or after the decision from the audit record.
func (r Recorded) Read(part json.RawMessage, to any) error {
	if err := json.Unmarshal(part, to); err != nil {
		return fmt.Errorf("read request %s: %w", r.Key, err)
	}
	return nil
}

// Rule implements a verb for targets of type T with results of type R.
type Rule[T, R any] struct {
	// Find returns the target and its key, which is part of the ID of the audit record.
	Find func(ctx context.Context, d *Decision) (T, string, error)
	// Check returns the change, or the error that refuses the decision. It writes nothing.
	Check func(ctx context.Context, d *Decision, target T) (*Change, error)
	// Act runs after the commit. It does the work outside of the database and returns the result. It must be safe to
	// repeat, because a repeated request calls it again. The answer omits a result that is the zero value.
	Act func(ctx context.Context, d *Decision, target T, r Recorded) (says string, result R, err error)
	// Warn, if set, returns the warning of the preview and of the answer. It runs before the change.
	Warn func(ctx context.Context, d *Decision, target T) (string, error)
	// Forecast, if set, adds values to the preview that the check does not return.
	Forecast func(ctx context.Context, d *Decision, target T, p *Preview) error
}

func (r Rule[T, R]) decide(ctx context.Context, d *Decision) (*Answer, error) {
	target, key, err := r.Find(ctx, d)
	if err != nil {
		return nil, err
	}
	subject := subjectOf(target, key)
	key += "/" + d.RequestID()
	arguments, err := d.arguments()
	if err != nil {
		return nil, err
	}
	known, err := d.Operator.Audit.Recorded(ctx, key)
	if err != nil {
		return nil, err
	}
	repeated, warning := known != nil, ""
	if !repeated {
		c, err := r.checked(ctx, d, target, subject)
		if err == nil && r.Warn != nil {
			warning, err = r.Warn(ctx, d, target)
		}
		if err != nil {
			return nil, err
		}
		added, err := d.record(ctx, c, key, arguments)
		if err != nil {
			return nil, err
		}
		repeated = !added // a concurrent call has recorded the same request
		if known, err = d.Operator.Audit.Recorded(ctx, key); err != nil {
			return nil, err
		}
	}
	rec := Recorded{known, key, repeated, warning}
	switch {
	case !bytes.Equal(known.Arguments, arguments):
		return nil, d.Reused(known.Action + " of " + known.Target)
	case known.Action == asking(d.Verb):
		return waits(ctx, d, rec)
	}
	answer := rec.answer(d)
	says, result, err := r.Act(ctx, d, target, rec)
	if answer.Message = says; !reflect.ValueOf(&result).Elem().IsZero() {
		answer.Result = result
	}
	if repeated && err == nil {
		repeat := fmt.Sprintf("%s of %s was already decided, by %s; this request changed nothing", d.Verb, known.Target,
			known.Actor)
		if answer.Message != "" {
			repeat += ": " + answer.Message
		}
		answer.Message = repeat
	}
	return answer, err
}

// record writes the audit record and makes the change in one transaction. added is false if the record already
// exists.
func (d *Decision) record(ctx context.Context, c *Change, key string, arguments []byte) (added bool, err error) {
	action, by := d.Verb, d.Identity()
	if c.asks {
		action = asking(d.Verb)
	}
	added, err = d.Operator.Audit.AppendWith(ctx, audit.Action{
		RequestID: key, Actor: d.Actor, Issuer: by.Issuer, Subject: by.Subject, Action: action,
		Target: c.Target, Reason: d.Reason, Before: c.Before, After: c.After, Arguments: arguments,
	}, c.Do)
	if err != nil && c.Refused != nil {
		c.Refused(ctx)
	}
	return added, err
}

// Shown returns the Find function of a rule with a target that is a comparison the person has seen. key identifies
// the comparison in the ID of the audit record.
func Shown[T any](key func(T) string) func(context.Context, *Decision) (T, string, error) {
	return func(_ context.Context, d *Decision) (found T, _ string, err error) {
		found, is := d.Found.(T)
		if !is {
			return found, "", Invalidf("%s needs the result of a comparison: run the comparison first (got a %T)",
				d.Verb, found)
		}
		return found, key(found), nil
	}
}

// checked runs the check. If the decision needs two people, it returns the change for the first or the second person.
func (r Rule[T, R]) checked(ctx context.Context, d *Decision, target T, subject string) (*Change, error) {
	c, err := r.Check(ctx, d, target)
	if err != nil {
		return nil, err
	}
	t, err := d.twoPeople(ctx, subject, c)
	if err != nil {
		return nil, err
	}
	return t.change(d, target, subject, d.holds(c))
}

func (r Rule[T, R]) preview(ctx context.Context, d *Decision) (*Preview, error) {
	target, key, err := r.Find(ctx, d)
	if err != nil {
		return nil, err
	}
	p := newPreview(d.Verb, target)
	c, err := r.Check(ctx, d, target)
	if err == nil {
		var t *twoPeople
		t, err = d.twoPeople(ctx, subjectOf(target, key), c)
		p.FourEyes, p.Pending = t.notice(), t.confirms()
	}
	if err == nil && c.Do != nil {
		err = RollBack(ctx, d.Operator.DB, c.Do)
	}
	if err == nil && r.Warn != nil {
		p.Warning, err = r.Warn(ctx, d, target)
	}
	if err == nil && r.Forecast != nil {
		err = r.Forecast(ctx, d, target, p)
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		p.Refused, p.Choices, p.Requested = refused.Target+" "+refused.Reason, refused.Try, refused.Requested
		return p, nil
	}
	return p, err
}

// RollBack runs do in a transaction and rolls it back.
func RollBack(ctx context.Context, db *pgxpool.Pool, do func(context.Context, pgx.Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	return do(ctx, tx)
}

// decides is a [Rule] with any target type.
type decides interface {
	decide(ctx context.Context, d *Decision) (*Answer, error)
	preview(ctx context.Context, d *Decision) (*Preview, error)
	// result returns the type of the rule's results.
	result() reflect.Type
}

// Nothing is the result type of a verb with an [Answer] that contains only a sentence.
type Nothing struct{}

func (r Rule[T, R]) result() reflect.Type { return reflect.TypeFor[R]() }

// Result returns the type of [Answer].Result for the verb, or nil if there is no result.
func (v *Verb) Result() reflect.Type {
	if of := v.Rule.result(); of != reflect.TypeFor[Nothing]() {
		return of
	}
	return nil
}
