package decide

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/timeline"
)

// The rule of two people: if [Operator.FourEyes] is set, a decision about live money needs two people who have signed
// in to the console, for any amount. The first person requests the decision. The second person confirms exactly this
// decision, and only if nothing has changed since the request. Each person needs a right to the verb, and the two
// people must have different values of [Identity]. A bulk job is one decision about a fixed list.

// askLasts is how long a decision waits for its second person: long enough for a weekend and the day after it.
const askLasts = 72 * time.Hour

// asking is the action in the audit trail when a first person requests a decision.
func asking(verb string) string { return "ask-" + verb }

// twoPeople is a decision that needs two people.
type twoPeople struct {
	// State is a hash of the decision and of everything that it depends on.
	state [sha256.Size]byte
	// waits is the pending decision with the same verb and subject, or nil. same is set if nothing has changed since
	// the first person requested the decision.
	waits *pending.Decision
	same  bool
	// second is set if this person confirms the pending decision.
	second bool
}

// twoPeople returns the state of a decision that needs two people. It returns nil for a decision that one person may
// make. It refuses a person who can be neither the first nor the second person.
func (d *Decision) twoPeople(ctx context.Context, subject string, c *Change) (*twoPeople, error) {
	switch {
	case !d.Operator.FourEyes || !c.Judges || d.follows:
		if d.Confirms != "" {
			return nil, d.waitsNoMore()
		}
		return nil, nil
	case d.Item != nil && d.Item.Job.AskedBy != "":
		return nil, nil
	case d.Item != nil:
		return nil, d.Refuse("is live money, and one person has started this job: it needs two people " +
			"(policy.four_eyes)")
	case d.By == nil || d.By.IsProgram() || d.By.Issuer == "" || d.By.Subject == "":
		return nil, d.Refuse("is live money: sign in to the console, because this decision needs two people " +
			"(policy.four_eyes). The command line and tokens cannot make it")
	}
	t := new(twoPeople)
	var err error
	if t.state, err = stateOf(d.Verb, c); err != nil {
		return nil, err
	}
	waiting, err := pending.About(ctx, d.Operator.DB, subject)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(waiting, func(p pending.Decision) bool { return p.Verb == d.Verb }); i >= 0 {
		t.waits = &waiting[i]
		t.same = [sha256.Size]byte(t.waits.State) == t.state
	}
	if c.Moved != nil && !t.same {
		if err := c.Moved(ctx); err != nil {
			return nil, err
		}
	}
	return t, d.takesPart(t)
}

// takesPart records whether the person is the first or the second person of the decision, or refuses the decision.
func (d *Decision) takesPart(t *twoPeople) error {
	own := t.waits != nil && d.By.Identity == Identity{t.waits.AskedIssuer, t.waits.AskedSubject}
	switch {
	case t.same && own:
		return &RefusedError{Target: d.Target, Verb: d.Verb, Try: []Choice{WithdrawChoice(*t.waits)},
			Requested: true, Reason: "waits for a second person: you requested this decision at " +
				FormatTime(t.waits.AskedAt) + ", and another person must confirm it"}
	case d.Confirms != "" && (t.waits == nil || t.waits.ID != d.Confirms):
		return d.waitsNoMore()
	case d.Confirms != "" && !t.same:
		return d.Refuse("has changed since %s requested this decision: check it again, and request the decision yourself",
			t.waits.AskedBy)
	case t.same && d.Confirms == "" && !d.DryRun:
		return d.Refuse("already waits for a second person, because %s requested the same decision: confirm it (pending %s)",
			t.waits.AskedBy, t.waits.ID)
	}
	t.second = t.same
	return nil
}

// waitsNoMore refuses to confirm a decision that is no longer pending.
func (d *Decision) waitsNoMore() error {
	return d.Refuse("no longer waits for a second person: another person has decided, or the decision was withdrawn or " +
		"has expired")
}

// Change returns the change that the first person's request or the second person's confirmation makes.
func (t *twoPeople) change(d *Decision, target any, subject string, c *Change) (*Change, error) {
	switch {
	case t == nil:
		return c, nil
	case t.second:
		return t.decides(d, c), nil
	}
	p := pending.Decision{ID: strings.ToLower(rand.Text()[:12]), Subject: subject, Verb: d.Verb, Target: c.Target,
		Args: argsOf(d), AskedBy: d.Actor, AskedIssuer: d.By.Issuer, AskedSubject: d.By.Subject, Reason: d.Reason,
		Money: c.Money, State: t.state[:]}
	switch of := target.(type) {
	case *NewJob:
		p.Target = of.what()
		var err error
		if p.Chosen, err = json.Marshal(of.Chosen); err != nil {
			return nil, fmt.Errorf("encode the list of the job: %w", err)
		}
	case *timeline.Receipt:
		p.Receipt, p.EventAt = of.ID, &of.UpdatedAt
	}
	after, replaces := map[string]any{"pending": p.ID, "money": p.Money}, ""
	if t.waits != nil {
		after["instead_of"], replaces = t.waits.AskedBy, t.waits.ID
	}
	return &Change{Target: c.Target, Before: c.Before, After: after, asks: true,
		Do: func(ctx context.Context, tx pgx.Tx) error {
			asked, err := pending.Ask(ctx, tx, p, askLasts, replaces)
			if err == nil && !asked {
				err = d.Refuse("already waits for a second person, because another person requested the same decision at the same time")
			}
			return err
		}}, nil
}

// decides returns the change that the second person's confirmation makes. If two people confirm at the same time,
// only one confirmation is accepted.
func (t *twoPeople) decides(d *Decision, c *Change) *Change {
	made := *c
	made.Before = maps.Clone(c.Before)
	if made.Before == nil {
		made.Before = map[string]any{}
	}
	for name, value := range map[string]string{"requested_by": t.waits.AskedBy, "requested_issuer": t.waits.AskedIssuer,
		"requested_subject": t.waits.AskedSubject, "requested_reason": t.waits.Reason} {
		made.Before[name] = value
	}
	if c.Confirmed != nil {
		c.Confirmed(t.waits.AskedBy)
	}
	made.Do = func(ctx context.Context, tx pgx.Tx) error {
		ended, err := pending.End(ctx, tx, t.waits.ID)
		switch {
		case err != nil:
			return err
		case !ended:
			return d.waitsNoMore()
		case c.Do == nil:
			return nil
		}
		return c.Do(ctx, tx)
	}
	return &made
}

// notice returns the text that is shown before a decision that needs two people. It returns "" if the decision is
// nil.
func (t *twoPeople) notice() string {
	switch {
	case t == nil:
		return ""
	case t.second:
		return fmt.Sprintf("This decision needs two people. %s requested it (%s). If you confirm, it is done.",
			t.waits.AskedBy, t.waits.Reason)
	case t.waits != nil:
		return fmt.Sprintf("This decision needs two people. %s requested it, but its target has changed since. "+
			"If you request it now, pawl executes it after another person has confirmed.", t.waits.AskedBy)
	}
	return "This decision needs two people. If you request it, pawl executes it after another person has confirmed."
}

// confirms returns the pending decision that the person may confirm. It returns nil if there is no such decision.
func (t *twoPeople) confirms() *pending.Decision {
	if t == nil || !t.second {
		return nil
	}
	return t.waits
}

// PreviewApproval returns the notice about the two people that a change needs, and the pending decision that the
// person may confirm.
func (d Decision) PreviewApproval(ctx context.Context, o *Operator, target any, c *Change) (notice string,
	confirms *pending.Decision, err error) {
	d.DryRun, d.Operator, d.verb = true, o, o.Verbs.Named(d.Verb)
	t, err := d.twoPeople(ctx, subjectOf(target, ""), c)
	if refused, is := errors.AsType[*RefusedError](err); is {
		return "It " + refused.Reason + ".", nil, nil
	}
	return t.notice(), t.confirms(), err
}

// waits is the answer to the first person.
func waits(ctx context.Context, d *Decision, rec Recorded) (*Answer, error) {
	var after struct {
		Pending   string `json:"pending"`
		InsteadOf string `json:"instead_of"`
	}
	if err := rec.Read(rec.After, &after); err != nil {
		return nil, err
	}
	p, err := pending.Get(ctx, d.Operator.DB, after.Pending)
	over := errors.Is(err, schema.ErrNotFound)
	if err != nil && !over {
		return nil, err
	}
	a := rec.answer(d)
	switch {
	case over:
		a.Message = "it no longer waits for a second person: it was decided or withdrawn, or it has expired"
	case after.InsteadOf != "":
		a.Message = "pawl has changed nothing yet: the target of the decision that " + after.InsteadOf +
			" requested has changed, and another " +
			"person has to confirm your decision"
	default:
		a.Message = "pawl executes it after another person has confirmed it in the console"
	}
	if !over {
		a.Pending = &p
		a.Message += ", before " + FormatTime(p.Until)
	}
	return a, nil
}

// FormatTime formats a time in UTC for people, to the second.
func FormatTime(t time.Time) string { return t.UTC().Format(time.DateTime + " MST") }

// argsOf returns the arguments of a decision by the names of its verb's flags; for a job, its verb, rate and filter.
func argsOf(d *Decision) map[string]string {
	args := map[string]string{}
	for _, f := range d.verb.Flags {
		args[f.Name] = *f.Value(&d.Args)
	}
	switch of := d.Found.(type) {
	case *NewJob:
		maps.Copy(args, of.Filter)
		args["verb"], args["effect"], args["reference"] = of.Action, of.Effect, of.Reference
		args["rate"] = strconv.FormatFloat(of.Rate, 'g', -1, 64)
	}
	maps.DeleteFunc(args, func(_, value string) bool { return value == "" })
	return args
}

// subjectOf returns the subject of a decision. It corresponds to the key in request IDs. The key of a job is the ID
// of one person's job, so the subject of a job is its filter instead.
func subjectOf(target any, key string) string {
	if j, is := target.(*NewJob); is {
		filter, _ := json.Marshal(j.Filter) // strings always encode
		return "job/" + j.Action + string(filter)
	}
	return key
}

// stateOf is a hash of a decision and of everything that it depends on.
func stateOf(verb string, c *Change) (sum [sha256.Size]byte, err error) {
	state := c.State
	if state == nil {
		state = []any{c.Before, c.After}
	}
	text, err := json.Marshal([]any{verb, state, c.Money})
	return sha256.Sum256(text), err
}

// Changed refuses an item of a job that has changed since the job was approved.
func (d *Decision) Changed(at time.Time) error {
	if d.Item == nil || d.Item.Seen == nil || d.Item.Seen.Equal(at) {
		return nil
	}
	return d.Refuse("has changed at %s, after the start of the job: the job omits it", FormatTime(at))
}

// holds adds a check to an item's change: the job must not have ended. An approval by two people is valid only until
// the job ends.
func (d *Decision) holds(c *Change) *Change {
	if d.Item == nil || !c.Judges || !d.Operator.FourEyes {
		return c
	}
	checked := *c
	checked.Do = func(ctx context.Context, tx pgx.Tx) error {
		holds, err := job.Holds(ctx, tx, d.Item.Job.ID, d.Item.Target)
		switch {
		case err != nil:
			return err
		case !holds:
			return d.Refuse("is omitted: the job has ended")
		case c.Do == nil:
			return nil
		}
		return c.Do(ctx, tx)
	}
	return &checked
}
