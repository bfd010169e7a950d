package operator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// askLasts is how long a decision waits for its second person: a weekend, and the day after.
const askLasts = 72 * time.Hour

// asking is the action in the audit trail of who asks first for a verb.
func asking(verb string) string { return "ask-" + verb }

// eyes is how a decision stands that takes two persons.
type eyes struct {
	stake *stake
	// state is a hash of the decision and of all that it rests on.
	state [sha256.Size]byte
	// waits is what somebody has asked for, of the same verb about the same subject; nil for nothing. It is same where
	// nothing has changed since.
	waits *pending.Decision
	same  bool
}

// look returns how a decision stands that takes two persons, nil for one that takes one. It refuses who can be neither
// of them. s is at stake; nil has it found out.
func (r rule[T, R]) look(ctx context.Context, d *Decision, target T, subject string, c *change,
	s *stake) (*eyes, error) {
	made, item := d.Found.(*job.Job)
	if item && made.AskedBy != "" || !judges(d.Verb, target) {
		return nil, nil
	}
	if s == nil {
		s = newStake()
		if err := r.weigh(ctx, d, target, s); err != nil {
			return nil, err
		}
	}
	if !s.over(d.o.FourEyes) {
		return nil, nil
	}
	e := &eyes{stake: s}
	switch {
	case item:
		return nil, d.refuse("%s: that takes a job that two persons have made", e.about())
	case d.By == nil || d.By.program():
		return nil, d.refuse("%s: that takes two persons who have signed in to the console, and neither a token nor "+
			"the command line is one", e.about())
	}
	var err error
	if e.state, err = stateOf(d.Verb, target, c, s); err != nil {
		return nil, err
	}
	waiting, err := pending.About(ctx, d.o.DB, subject)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(waiting, func(p pending.Decision) bool { return p.Verb == d.Verb }); i >= 0 {
		e.waits = &waiting[i]
		e.same = [sha256.Size]byte(e.waits.State) == e.state
	}
	if r, is := any(target).(*timeline.Receipt); is && !e.same {
		if now, err := FindEvent(ctx, d.o.DB, r.ID); err != nil || !now.UpdatedAt.Equal(r.UpdatedAt) {
			return nil, d.came(ctx, r, receipt.ErrMoved)
		}
	}
	if e.same && strings.EqualFold(e.waits.AskedBy, d.By.Name) {
		return nil, &RefusedError{Target: d.Target, Verb: d.Verb, Try: []Choice{withdraws(*e.waits)},
			Why: "waits for a second person since you have asked for it, at " + timeOf(e.waits.AskedAt)}
	}
	return e, nil
}

// change turns the change of a decision into that of the first person, who asks, or of the second, who decides.
func (e *eyes) change(d *Decision, target any, subject string, c *change) *change {
	switch {
	case e == nil:
		return c
	case e.same:
		return e.second(d, target, c)
	}
	p := pending.Decision{ID: strings.ToLower(rand.Text()[:12]), Subject: subject, Verb: d.Verb, Target: c.target,
		Args: argsOf(d), AskedBy: d.Who, Why: d.Why, Money: e.stake.money(), State: e.state[:]}
	switch of := target.(type) {
	case *NewJob:
		p.Target = of.what()
	case *timeline.Receipt:
		p.Receipt, p.EventAt = of.ID, &of.UpdatedAt
	}
	after := map[string]any{"pending": p.ID, "money": p.Money}
	if e.waits != nil {
		after["instead_of"] = e.waits.AskedBy
	}
	return &change{target: c.target, before: c.before, after: after, asks: true,
		do: func(ctx context.Context, tx pgx.Tx) error { return pending.Ask(ctx, tx, p, askLasts) }}
}

// second is the change of the second person: of two who decide at once, one does.
func (e *eyes) second(d *Decision, target any, c *change) *change {
	made := *c
	made.before = maps.Clone(c.before)
	if made.before == nil {
		made.before = map[string]any{}
	}
	made.before["asked_by"], made.before["asked_why"] = e.waits.AskedBy, e.waits.Why
	if j, is := target.(*NewJob); is {
		j.AskedBy = e.waits.AskedBy
	}
	made.do = func(ctx context.Context, tx pgx.Tx) error {
		ended, err := pending.End(ctx, tx, e.waits.ID)
		switch {
		case err != nil:
			return err
		case !ended:
			return d.refuse("waits for a second person no more: somebody else has decided, or it was withdrawn")
		case c.do == nil:
			return nil
		}
		return c.do(ctx, tx)
	}
	return &made
}

// about says why it takes two persons.
func (e *eyes) about() string {
	if e.stake.unknown {
		return "moves money, and how much is not known before"
	}
	return "moves " + Sums(e.stake.money()) + ", which is over the limit of one person (policy.four_eyes)"
}

// says says it before anything is decided; "" for nil.
func (e *eyes) says() string {
	switch {
	case e == nil:
		return ""
	case e.same:
		return fmt.Sprintf("It %s. %s has asked for it (%s): you are the second person, and it is done.", e.about(),
			e.waits.AskedBy, e.waits.Why)
	case e.waits != nil:
		return fmt.Sprintf("It %s. %s has asked for it, but something has changed since: nothing is done until a "+
			"second person decides the same as you.", e.about(), e.waits.AskedBy)
	}
	return "It " + e.about() + ": nothing is done until a second person decides the same."
}

// waits answers who has asked first.
func waits(ctx context.Context, d *Decision, rec recorded) (*Answer, error) {
	var after struct {
		Pending   string `json:"pending"`
		InsteadOf string `json:"instead_of"`
	}
	if err := rec.read(rec.After, &after); err != nil {
		return nil, err
	}
	p, err := pending.Get(ctx, d.o.DB, after.Pending)
	over := errors.Is(err, schema.ErrNotFound)
	if err != nil && !over {
		return nil, err
	}
	a := &Answer{Verb: d.Verb, Target: rec.Target, Request: d.Request, Who: rec.Actor, Repeated: rec.repeated}
	switch {
	case over:
		a.Says = "it waits for a second person no more: it was decided or withdrawn, or it has lapsed"
	case after.InsteadOf != "":
		a.Says = "nothing is done yet: what " + after.InsteadOf + " had asked for has changed since, so that another " +
			"person has to decide the same as you now"
	default:
		a.Says = "nothing is done until a second person decides the same"
	}
	if !over {
		a.Pending = &p
		a.Says += ", before " + timeOf(p.Until)
	}
	return a, nil
}

func timeOf(t time.Time) string { return t.UTC().Format(time.DateTime + " MST") }

// argsOf are what a decision says beside its target, by the names of its verb's flags; of a job, its verb and filter.
func argsOf(d *Decision) map[string]string {
	args := map[string]string{}
	if j, is := d.Found.(*NewJob); is {
		maps.Copy(args, j.Filter)
		args["verb"], args["effect"], args["reference"] = j.Action, j.Effect, j.Reference
	}
	for _, f := range VerbNamed(d.Verb).Flags {
		args[f.Name] = *f.Value(&d.Args)
	}
	maps.DeleteFunc(args, func(_, value string) bool { return value == "" })
	return args
}

// subjectOf names the target of a decision, which key names in the IDs of requests: those of a job have its ID, which
// is another one for each person.
func subjectOf(target any, key string) string {
	if j, is := target.(*NewJob); is {
		filter, _ := json.Marshal(j.Filter) // strings always encode
		return "job/" + j.Action + string(filter)
	}
	return key
}

// stateOf is a hash of a decision and of all that it rests on.
func stateOf(verb string, target any, c *change, s *stake) (sum [sha256.Size]byte, err error) {
	decided := []any{verb, c.before, c.after}
	if j, is := target.(*NewJob); is {
		decided = []any{j.Action, j.Effect, j.Reference, j.Filter, j.items()}
	}
	text, err := json.Marshal(append(decided, s.money(), s.unknown))
	return sha256.Sum256(text), err
}

// judges reports whether a verb says what becomes of money. A retry does where it answers a review.
func judges(verb string, target any) bool {
	switch of := target.(type) {
	case *NewJob:
		return of.Action == VerbRetry || VerbNamed(of.Action).Judges
	case *timeline.Receipt:
		if _, asked := reviewOf(of); verb == VerbRetry {
			return asked
		}
	}
	return VerbNamed(verb).Judges
}

// Sums are sums of money in minor units, by currency; "" for none.
func Sums(money map[string]int64) string {
	var sums []string
	for _, currency := range slices.Sorted(maps.Keys(money)) {
		sums = append(sums, stripe.Money(money[currency], currency))
	}
	return strings.Join(sums, " + ")
}
