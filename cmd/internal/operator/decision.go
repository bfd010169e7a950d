package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/workflows"
)

// Decision is what somebody decides about something.
type Decision struct {
	// Verb is the name of one of [Verbs].
	Verb string
	// Target names its subject: an event, an account, a task's object, a job, a sink, …
	Target string
	// Decided by Who, for the reason Why. Both are required and stand in the audit trail.
	Who, Why string
	// By is the person who decides, where the name was verified; Who is that name then. nil for the command line.
	By *Person
	// Request makes the call safe to repeat: the same verb, target and request are one decision. "" makes up a new one.
	Request string
	// Confirms is the ID of the pending decision that the second person confirms, "" for any other decision.
	Confirms string
	Args

	// o is the operator that was asked.
	o *Operator
	// item is the item of a job that is decided, nil for any other decision. madeBy made the job.
	item   *job.Item
	madeBy Identity
	// preview is set where nothing is decided. Temporal is not asked then.
	preview bool
	// fromRun is set where the run of a job decides, since it was cancelled in Temporal.
	fromRun bool
}

// Args are what a decision says beside its target. A verb reads those that its flags name.
type Args struct {
	// Effect, Reference and Confirm are those of [workflows.DecisionInput].
	Effect, Reference, Confirm string
	// Mode is "live", "test", or "" where the target is in one of them only. Kind is that of a task.
	Mode, Kind string
	// Account is the one that money is given to.
	Account string
	// From is when the effects of a mode begin, as the command takes it.
	From string
	// Role, Expires and Networks are those of a new token, as the command takes them.
	Role, Expires, Networks string
	// Letters are the kinds of letters that a new meaning sends, with commas between them.
	Letters string
	// To says who is told of an account.
	To billing.Announcement
	// Found is what a command has shown before it asks: a [*GapReport], a [*Reconciliation], a [*Drift], a
	// [*MeaningSwitch], a [*RereadDecision], or the [*NewJob] that is made. For an item it is the [*job.Job].
	Found any
}

// Answer is what came of a decision.
type Answer struct {
	Verb string `json:"verb"`
	// Target is its subject, as the audit trail names it.
	Target  string `json:"target"`
	Request string `json:"request_id"`
	Who     string `json:"who"`
	// Says what comes of it, in one sentence.
	Says string `json:"says"`
	// Repeated is set where the request was decided before: nothing was decided now.
	Repeated bool `json:"repeated,omitempty"`
	// Pending is what waits for a second person. Nothing else was done then.
	Pending *pending.Decision `json:"pending,omitempty"`
	// Result is the verb's own: an [*EventResult], a [*TaskResult], an [*AccountResult], a [*job.Job], …
	Result any `json:"result,omitempty"`
}

// RefusedError says that a verb does nothing about its target as that stands, and what does. Nothing was changed. The
// audit trail has nothing of it either, except for a decision that came too late at its run: then it has both the
// decision and the refusal.
type RefusedError struct {
	Target, Verb string
	// Why follows the target in a sentence.
	Why string
	// Try are the choices that work as the target stands now.
	Try []Choice
}

func (e *RefusedError) Error() string {
	text := e.Target + " " + e.Why
	for i, c := range e.Try {
		if i == 0 {
			text += "\nwhat can be done:"
		}
		text += "\n  " + c.Line() + "  # " + c.Does
	}
	return text
}

// refuse returns the refusal of a decision.
func (d *Decision) refuse(format string, args ...any) error {
	return &RefusedError{Target: d.Target, Verb: d.Verb, Why: fmt.Sprintf(format, args...)}
}

// MaxRequest bounds an ID of a request, in bytes.
const MaxRequest = 100

// check refuses a decision that nobody answers for, and one that cannot be recorded. Previews need no who and why.
func (d *Decision) check(preview bool) (*Verb, error) {
	v := VerbNamed(d.Verb)
	switch {
	case v == nil:
		var names []string
		for _, v := range verbs {
			names = append(names, v.Name)
		}
		return nil, invalid("there is no verb %q: use one of %s", d.Verb, strings.Join(names, ", "))
	case len(d.Request) > MaxRequest ||
		strings.ContainsFunc(d.Request, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		return nil, invalid("request ID %.100q: use 1 to %d printable ASCII characters without spaces", d.Request,
			MaxRequest)
	}
	if err := d.checkText(v); err != nil || preview {
		return v, err
	}
	if err := d.permit(v); err != nil {
		return nil, err
	}
	switch {
	case strings.TrimSpace(d.Who) == "" || strings.TrimSpace(d.Why) == "":
		return nil, invalid("who and why are required: both go into the audit trail")
	case len(d.Who) > workflows.MaxWho || len(d.Why) > workflows.MaxWhy || !isText(d.Who+d.Why):
		return nil, invalid("who (%d bytes at most) and why (%d) must be UTF-8 without NUL", workflows.MaxWho,
			workflows.MaxWhy)
	}
	return v, nil
}

// Decide checks a decision, records it in the audit trail and does it, in one commit. Work outside of the database
// follows the commit: a parked run is told, a job is started, an admitted request is taken in.
//
// The error is a [*RefusedError] where the verb does nothing as its target stands, and a [*Fault] where it
// cannot be understood or the person may not decide it. After any other error the decision may have been recorded or
// not: the same call again, with the same Request, finds out and is still one decision.
func (o *Operator) Decide(ctx context.Context, d Decision) (*Answer, error) {
	if o.Remote {
		return remote[Answer](ctx, o, remoteDecide, remoteInput{Decision: &d})
	}
	v, err := d.check(false)
	if err != nil {
		return nil, err
	}
	if v.reveals() {
		d.Request = "" // each reveal is a line of the audit trail
	}
	d.Request, d.o = cmp.Or(d.Request, uuid.NewString()), o
	if j, is := d.Found.(*NewJob); is {
		d.Confirms = j.Confirms
	}
	return v.rule.decide(ctx, &d)
}

// change is what a decision does to the database, and what the audit trail holds of it.
type change struct {
	target        string
	before, after map[string]any
	// do is done in one commit with the record; nil for nothing. It refuses where the target has moved on since the
	// check.
	do func(ctx context.Context, tx pgx.Tx) error
	// refused is called when do has refused, after its rollback; nil for nothing.
	refused func(ctx context.Context)
	// judges is set if the decision judges live money.
	judges bool
	// money is the amount of the target, in minor units by currency.
	money map[string]int64
	// state is everything that the decision depends on; nil for before and after.
	state any
	// asks is set where nothing is decided yet: the change keeps the decision for a second person.
	asks bool
}

// recorded is a decision as the audit trail holds it.
type recorded struct {
	*audit.Recorded
	// key is the record's ID in the trail.
	key string
	// repeated is set where it was recorded by an earlier call.
	repeated bool
}

// read reads what stood before the decision, or stands after it.
func (r recorded) read(part json.RawMessage, to any) error {
	if err := json.Unmarshal(part, to); err != nil {
		return fmt.Errorf("read request %s: %w", r.key, err)
	}
	return nil
}

// rule is how a verb is decided about a T, with an R as its result.
type rule[T, R any] struct {
	// find finds the target, and returns it with what names it in the IDs of requests.
	find func(ctx context.Context, d *Decision) (T, string, error)
	// check says what the decision changes, or refuses it. It changes nothing.
	check func(ctx context.Context, d *Decision, target T) (*change, error)
	// answer does what remains to be done after the commit, and says what came of it. A zero result is left out. A
	// repeated request calls it again.
	answer func(ctx context.Context, d *Decision, target T, r recorded) (says string, result R, err error)
	// forecast completes a preview; nil where the check says all.
	forecast func(ctx context.Context, d *Decision, target T, p *Preview) error
}

func (r rule[T, R]) decide(ctx context.Context, d *Decision) (*Answer, error) {
	target, key, err := r.find(ctx, d)
	if err != nil {
		return nil, err
	}
	subject := subjectOf(target, key)
	key += "/" + d.requestID()
	arguments, err := d.arguments()
	if err != nil {
		return nil, err
	}
	known, err := d.o.Audit.Recorded(ctx, key)
	if err != nil {
		return nil, err
	}
	repeated := known != nil
	if !repeated {
		c, err := r.checked(ctx, d, target, subject)
		if err != nil {
			return nil, err
		}
		action, by := d.Verb, d.identity()
		if c.asks {
			action = asking(d.Verb)
		}
		added, err := d.o.Audit.AppendWith(ctx, audit.Action{
			RequestID: key, Actor: d.Who, Issuer: by.Issuer, Subject: by.Subject, Action: action,
			Target: c.target, Reason: d.Why, Before: c.before, After: c.after, Arguments: arguments,
		}, c.do)
		if err != nil {
			if c.refused != nil {
				c.refused(ctx)
			}
			return nil, err
		}
		repeated = !added // the same request was recorded at this moment
		if known, err = d.o.Audit.Recorded(ctx, key); err != nil {
			return nil, err
		}
	}
	switch {
	case !bytes.Equal(known.Arguments, arguments):
		return nil, d.reused(known.Action + " of " + known.Target)
	case known.Action == asking(d.Verb):
		return waits(ctx, d, recorded{known, key, repeated})
	}
	answer := &Answer{Verb: d.Verb, Target: known.Target, Request: d.Request, Who: known.Actor, Repeated: repeated}
	says, result, err := r.answer(ctx, d, target, recorded{known, key, repeated})
	if answer.Says = says; !reflect.ValueOf(&result).Elem().IsZero() {
		answer.Result = result
	}
	if repeated && err == nil {
		answer.Says = fmt.Sprintf("this %s of %s was decided before, by %s; nothing was decided now", d.Verb,
			known.Target, known.Actor) + because(answer.Says)
	}
	return answer, err
}

// shown is the find of a rule about what a command has shown before it asks. key names it in the IDs of requests.
func shown[T any](key func(T) string) func(context.Context, *Decision) (T, string, error) {
	return func(_ context.Context, d *Decision) (found T, _ string, err error) {
		found, is := d.Found.(T)
		if !is {
			return found, "", invalid("%s is about what was shown before: a %T", d.Verb, found)
		}
		return found, key(found), nil
	}
}

// checked is the check of a decision. The change is that of the first or of the second person, if it takes two.
func (r rule[T, R]) checked(ctx context.Context, d *Decision, target T, subject string) (*change, error) {
	c, err := r.check(ctx, d, target)
	if err != nil {
		return nil, err
	}
	t, err := d.twoPeople(ctx, target, subject, c)
	if err != nil {
		return nil, err
	}
	return t.change(d, target, subject, d.holds(c))
}

func (r rule[T, R]) preview(ctx context.Context, d *Decision) (*Preview, error) {
	target, key, err := r.find(ctx, d)
	if err != nil {
		return nil, err
	}
	p := newPreview(d.Verb, target)
	c, err := r.check(ctx, d, target)
	if err == nil {
		var t *twoPeople
		t, err = d.twoPeople(ctx, target, subjectOf(target, key), c)
		p.FourEyes, p.Pending = t.notice(), t.confirms()
	}
	if err == nil && c.do != nil {
		err = rollBack(ctx, d.o.DB, c.do)
	}
	if err == nil && r.forecast != nil {
		err = r.forecast(ctx, d, target, p)
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		p.Refused, p.Choices = refused.Target+" "+refused.Why, refused.Try
		return p, nil
	}
	return p, err
}

// rollBack makes a change, and rolls it back.
func rollBack(ctx context.Context, db *pgxpool.Pool, do func(context.Context, pgx.Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	return do(ctx, tx)
}

// decides is a [rule] of any target.
type decides interface {
	decide(ctx context.Context, d *Decision) (*Answer, error)
	preview(ctx context.Context, d *Decision) (*Preview, error)
	// result is the type of a rule's result.
	result() reflect.Type
}

// nothing is the result of a verb that says all in a sentence.
type nothing struct{}

func (r rule[T, R]) result() reflect.Type { return reflect.TypeFor[R]() }

// Result is the type of [Answer]'s for the verb, nil for none.
func (v *Verb) Result() reflect.Type {
	if of := v.rule.result(); of != reflect.TypeFor[nothing]() {
		return of
	}
	return nil
}

// Preview says what a decision would do, and changes nothing: it makes the same check, does the change in a
// transaction that it rolls back, and follows the run that would come. A decision that would be refused is a preview,
// too. Nobody has to say who and why. The error is one of [FindEvent]'s, or of the target's own search.
func (o *Operator) Preview(ctx context.Context, d Decision) (*Preview, error) {
	if o.Remote {
		return remote[Preview](ctx, o, remotePreview, remoteInput{Decision: &d})
	}
	v, err := d.check(true)
	if err != nil {
		return nil, err
	}
	d.Who, d.Why = cmp.Or(strings.TrimSpace(d.Who), "somebody"), cmp.Or(strings.TrimSpace(d.Why), "a preview")
	d.Request, d.preview, d.o = cmp.Or(d.Request, "preview"), true, o
	return v.rule.preview(ctx, &d)
}
