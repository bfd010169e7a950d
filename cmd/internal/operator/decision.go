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

// Decision is a request of a person or a job to act on one target.
type Decision struct {
	// Verb is the name of a verb in [Verbs].
	Verb string
	// Target is the ID of the event, account, task object, job, sink, …
	Target string
	// Who is the person who decides and Why is the reason. The audit trail stores both, so both are required.
	Who, Why string
	// By is the authenticated person, and Who is then the name of that person. By is nil for the command line.
	By *Person
	// Request is the idempotency key: calls with the same verb, target and request make one decision. If it is empty,
	// [Operator.Decide] generates one.
	Request string
	// Confirms is the ID of the pending decision that the second person confirms. It is empty for other decisions.
	Confirms string
	Args

	// o is the operator that runs the decision.
	o *Operator
	// item is set if a job decides about one of its items. madeBy is the person who created that job.
	item   *job.Item
	madeBy Identity
	// preview is set if the call only previews the decision. It then sends no request to Temporal.
	preview bool
	// fromRun is set if the run of a job cancels the job, because the run was cancelled in Temporal.
	fromRun bool
}

// Args are the parameters of a decision beside its target. Each verb reads the fields that its flags set.
type Args struct {
	// Effect, Reference and Confirm have the meaning of the same fields in [workflows.DecisionInput].
	Effect, Reference, Confirm string
	// Mode is "live" or "test". It can be empty if the target exists in only one mode. Kind is the kind of a task.
	Mode, Kind string
	// Account is the account that money is assigned to.
	Account string
	// From is the start of the effects of a mode, in the format of the command's flag.
	From string
	// Role, Expires and Networks describe a new token, in the format of the command's flags.
	Role, Expires, Networks string
	// Letters lists the kinds of letters that a new meaning sends, separated by commas.
	Letters string
	// To selects which subscribers receive the access of an account again, and whether its workspace is updated.
	To billing.Announcement
	// Found is the result of an earlier comparison that the person has seen: a [*GapReport], a [*Reconciliation], a
	// [*Drift], a [*MeaningSwitch] or a [*RereadDecision]. For a new job it is the [*NewJob], and for an item of a job
	// the [*job.Job].
	Found any
}

// Answer is the result of a decision.
type Answer struct {
	Verb string `json:"verb"`
	// Target is the target's name in the audit trail.
	Target  string `json:"target"`
	Request string `json:"request_id"`
	Who     string `json:"who"`
	// Says describes the result in one sentence.
	Says string `json:"says"`
	// Repeated is set if an earlier call made the same decision, so that this call changed nothing.
	Repeated bool `json:"repeated,omitempty"`
	// Pending is set if the decision waits for a second person. Nothing else was changed then.
	Pending *pending.Decision `json:"pending,omitempty"`
	// Result depends on the verb: an [*EventResult], a [*TaskResult], an [*AccountResult], a [*job.Job], …
	Result any `json:"result,omitempty"`
}

// RefusedError reports that the verb does not apply to the current state of the target, and lists the verbs that do.
// Nothing was changed, and the audit trail has no entry. One case differs: if the parked run rejects a decision that
// was recorded already, the audit trail contains the decision and the refusal.
type RefusedError struct {
	Target, Verb string
	// Why is the reason. It continues a sentence that begins with the target.
	Why string
	// Try lists the decisions that are possible in the current state.
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

// refuse returns a [RefusedError] without alternatives.
func (d *Decision) refuse(format string, args ...any) error {
	return &RefusedError{Target: d.Target, Verb: d.Verb, Why: fmt.Sprintf(format, args...)}
}

// MaxRequest is the maximum length of a request ID in bytes.
const MaxRequest = 100

// check validates the decision. A preview needs no person and no reason.
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

// Decide checks a decision, records it in the audit trail and changes the database, all in one transaction. It then
// does the work outside of the database: it sends the update to the parked run, starts the job, or inserts the admitted
// request.
//
// The error is a [*RefusedError] if the verb does not apply to the state of the target, and a [*Fault] if the call is
// invalid or forbidden. After any other error it is unknown whether the decision was recorded. Repeat the call with the
// same Request: it completes the decision or makes it for the first time.
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

// change describes the change to the database and its audit record.
type change struct {
	target        string
	before, after map[string]any
	// do runs in the transaction that writes the audit record. It returns a [RefusedError] if the target has changed
	// since the check. nil means no change.
	do func(ctx context.Context, tx pgx.Tx) error
	// refused, if set, runs after do has failed and its transaction is rolled back.
	refused func(ctx context.Context)
	// judges is set if the decision is about live money.
	judges bool
	// money is the amount of the target, in minor units by currency.
	money map[string]int64
	// state contains all values that the decision depends on. If it is nil, before and after are used.
	state any
	// asks is set if the change only stores the decision for a second person.
	asks bool
}

// recorded is a decision with its audit record.
type recorded struct {
	*audit.Recorded
	// key is the ID of the audit record.
	key string
	// repeated is set if an earlier call wrote the record.
	repeated bool
}

// read decodes the state before or after the decision from the audit record.
func (r recorded) read(part json.RawMessage, to any) error {
	if err := json.Unmarshal(part, to); err != nil {
		return fmt.Errorf("read request %s: %w", r.key, err)
	}
	return nil
}

// rule implements a verb for targets of type T with results of type R.
type rule[T, R any] struct {
	// find returns the target and its key, which is part of the ID of the audit record.
	find func(ctx context.Context, d *Decision) (T, string, error)
	// check returns the change, or the error that refuses the decision. It writes nothing.
	check func(ctx context.Context, d *Decision, target T) (*change, error)
	// answer runs after the commit. It does the work outside of the database and returns the result. It must be safe to
	// repeat, because a repeated request calls it again. The answer omits a zero result.
	answer func(ctx context.Context, d *Decision, target T, r recorded) (says string, result R, err error)
	// forecast, if set, adds to the preview the facts that the check does not return.
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

// shown returns the find function of a rule about a comparison that the person has seen. key names the comparison in
// the ID of the audit record.
func shown[T any](key func(T) string) func(context.Context, *Decision) (T, string, error) {
	return func(_ context.Context, d *Decision) (found T, _ string, err error) {
		found, is := d.Found.(T)
		if !is {
			return found, "", invalid("%s is about what was shown before: a %T", d.Verb, found)
		}
		return found, key(found), nil
	}
}

// checked runs the check. If the decision needs two people, it returns the change of the first or of the second person.
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

// rollBack runs do in a transaction and rolls it back.
func rollBack(ctx context.Context, db *pgxpool.Pool, do func(context.Context, pgx.Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	return do(ctx, tx)
}

// decides is a [rule] for any type of target.
type decides interface {
	decide(ctx context.Context, d *Decision) (*Answer, error)
	preview(ctx context.Context, d *Decision) (*Preview, error)
	// result returns the type of the rule's results.
	result() reflect.Type
}

// nothing is the result type of a verb that returns only the sentence in [Answer].
type nothing struct{}

func (r rule[T, R]) result() reflect.Type { return reflect.TypeFor[R]() }

// Result returns the type of [Answer].Result for the verb, or nil if the verb has only a sentence.
func (v *Verb) Result() reflect.Type {
	if of := v.rule.result(); of != reflect.TypeFor[nothing]() {
		return of
	}
	return nil
}

// Preview describes the consequence of a decision and changes nothing. It runs the same check, makes the change in a
// transaction that it rolls back, and simulates the workflow run. If the decision would be refused, the preview
// contains the reason. Who and Why are optional. The error comes from the search for the target, for example from
// [FindEvent].
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
