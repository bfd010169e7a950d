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
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// The rule of two people: if [Operator.FourEyes] is set, a decision that judges live money needs two people who have
// signed in to the console, for any amount. The first person asks. The second person confirms exactly that decision,
// while nothing has changed since. Each of them needs a right to the verb, and they differ by [Identity]. A bulk job is
// one decision about a fixed list.

// askLasts is how long a decision waits for its second person: a weekend, and the day after.
const askLasts = 72 * time.Hour

// asking is the action in the audit trail when a person asks first for a verb.
func asking(verb string) string { return "ask-" + verb }

// twoPeople is a decision that needs two people.
type twoPeople struct {
	// state is a hash of the decision and of everything that it depends on.
	state [sha256.Size]byte
	// waits is the decision of the same verb about the same subject that waits for a second person, or
	// nil. same is set if nothing has changed since the first person asked.
	waits *pending.Decision
	same  bool
	// second is set if the person confirms that decision.
	second bool
}

// twoPeople returns how a decision that needs two people proceeds, nil for a decision that one person may make. It
// refuses a person who can be neither the first nor the second.
func (d *Decision) twoPeople(ctx context.Context, target any, subject string, c *change) (*twoPeople, error) {
	made, item := d.Found.(*job.Job)
	switch {
	case !d.o.FourEyes || !c.judges:
		if d.Confirms != "" {
			return nil, d.waitsNoMore()
		}
		return nil, nil
	case item && made.AskedBy != "":
		return nil, nil
	case item:
		return nil, d.refuse("is live money, and one person has made this job: two people have to make it " +
			"(policy.four_eyes)")
	case d.By == nil || d.By.program() || d.By.Issuer == "" || d.By.Subject == "":
		return nil, d.refuse("is live money: sign in to the console, because this decision needs two people " +
			"(policy.four_eyes). The command line and tokens cannot make it")
	}
	t := new(twoPeople)
	var err error
	if t.state, err = stateOf(d.Verb, c); err != nil {
		return nil, err
	}
	waiting, err := pending.About(ctx, d.o.DB, subject)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(waiting, func(p pending.Decision) bool { return p.Verb == d.Verb }); i >= 0 {
		t.waits = &waiting[i]
		t.same = [sha256.Size]byte(t.waits.State) == t.state
	}
	if r, is := target.(*timeline.Receipt); is && !t.same {
		if now, err := FindEvent(ctx, d.o.DB, r.ID); err != nil || !now.UpdatedAt.Equal(r.UpdatedAt) {
			return nil, d.came(ctx, r, receipt.ErrMoved)
		}
	}
	return t, d.takesPart(t)
}

// takesPart makes the person the first or the second one, or refuses the decision.
func (d *Decision) takesPart(t *twoPeople) error {
	own := t.waits != nil && d.By.Identity == Identity{t.waits.AskedIssuer, t.waits.AskedSubject}
	switch {
	case t.same && own:
		return &RefusedError{Target: d.Target, Verb: d.Verb, Try: []Choice{withdraws(*t.waits)},
			Why: "waits for a second person since you asked for it, at " + timeOf(t.waits.AskedAt)}
	case d.Confirms != "" && (t.waits == nil || t.waits.ID != d.Confirms):
		return d.waitsNoMore()
	case d.Confirms != "" && !t.same:
		return d.refuse("has changed since %s asked for this decision: look at it again, and ask for it yourself",
			t.waits.AskedBy)
	case t.same && d.Confirms == "" && !d.preview:
		return d.refuse("waits for a second person, because %s asked for the same: confirm that decision (pending %s)",
			t.waits.AskedBy, t.waits.ID)
	}
	t.second = t.same
	return nil
}

// waitsNoMore refuses to confirm a decision that does not wait.
func (d *Decision) waitsNoMore() error {
	return d.refuse("waits for a second person no more: another person has decided, or the decision was withdrawn or " +
		"has lapsed")
}

// change returns the change of the first person, who asks, or of the second person, who decides.
func (t *twoPeople) change(d *Decision, target any, subject string, c *change) (*change, error) {
	switch {
	case t == nil:
		return c, nil
	case t.second:
		return t.decides(d, target, c), nil
	}
	p := pending.Decision{ID: strings.ToLower(rand.Text()[:12]), Subject: subject, Verb: d.Verb, Target: c.target,
		Args: argsOf(d), AskedBy: d.Who, AskedIssuer: d.By.Issuer, AskedSubject: d.By.Subject, Why: d.Why,
		Money: c.money, State: t.state[:]}
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
	return &change{target: c.target, before: c.before, after: after, asks: true,
		do: func(ctx context.Context, tx pgx.Tx) error {
			asked, err := pending.Ask(ctx, tx, p, askLasts, replaces)
			if err == nil && !asked {
				err = d.refuse("waits for a second person, because another person asked for this at the same moment")
			}
			return err
		}}, nil
}

// decides returns the change of the second person. If two people confirm at once, one of them decides.
func (t *twoPeople) decides(d *Decision, target any, c *change) *change {
	made := *c
	made.before = maps.Clone(c.before)
	if made.before == nil {
		made.before = map[string]any{}
	}
	for name, value := range map[string]string{"asked_by": t.waits.AskedBy, "asked_issuer": t.waits.AskedIssuer,
		"asked_subject": t.waits.AskedSubject, "asked_why": t.waits.Why} {
		made.before[name] = value
	}
	switch of := target.(type) {
	case *NewJob:
		of.AskedBy = t.waits.AskedBy
	case *MeaningSwitch:
		of.askedBy = t.waits.AskedBy
	}
	made.do = func(ctx context.Context, tx pgx.Tx) error {
		ended, err := pending.End(ctx, tx, t.waits.ID)
		switch {
		case err != nil:
			return err
		case !ended:
			return d.waitsNoMore()
		case c.do == nil:
			return nil
		}
		return c.do(ctx, tx)
	}
	return &made
}

// notice is shown before a decision that needs two people. It returns "" for nil.
func (t *twoPeople) notice() string {
	switch {
	case t == nil:
		return ""
	case t.second:
		return fmt.Sprintf("This decision needs two people. %s asked for it (%s). If you confirm, it is done.",
			t.waits.AskedBy, t.waits.Why)
	case t.waits != nil:
		return fmt.Sprintf("This decision needs two people. %s asked for it, but something has changed since. "+
			"If you ask now, nothing is done until another person confirms.", t.waits.AskedBy)
	}
	return "This decision needs two people. If you ask for it, nothing is done until another person confirms."
}

// confirms returns the pending decision that the person may confirm, nil without such a decision.
func (t *twoPeople) confirms() *pending.Decision {
	if t == nil || !t.second {
		return nil
	}
	return t.waits
}

// waits is the answer to the first person.
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
		a.Says = "nothing is done yet: what " + after.InsteadOf + " had asked for has changed since, and another " +
			"person has to confirm your decision"
	default:
		a.Says = "nothing is done until another person confirms it in the console"
	}
	if !over {
		a.Pending = &p
		a.Says += ", before " + timeOf(p.Until)
	}
	return a, nil
}

func timeOf(t time.Time) string { return t.UTC().Format(time.DateTime + " MST") }

// argsOf returns the arguments of a decision by the names of its verb's flags; for a job, its verb, rate and filter.
func argsOf(d *Decision) map[string]string {
	args := map[string]string{}
	for _, f := range VerbNamed(d.Verb).Flags {
		args[f.Name] = *f.Value(&d.Args)
	}
	switch of := d.Found.(type) {
	case *NewJob:
		maps.Copy(args, of.Filter)
		args["verb"], args["effect"], args["reference"] = of.Action, of.Effect, of.Reference
		args["rate"] = strconv.FormatFloat(of.Rate, 'g', -1, 64)
	case *MeaningSwitch:
		args["letters"] = strings.Join(of.Letters, ",")
	}
	maps.DeleteFunc(args, func(_, value string) bool { return value == "" })
	return args
}

// ConfirmedJob returns the job that waits for a second person under an ID: with the list and the arguments of the
// first person.
func ConfirmedJob(ctx context.Context, db schema.Querier, id string) (*NewJob, error) {
	p, err := pending.GetWhole(ctx, db, id)
	if errors.Is(err, schema.ErrNotFound) || err == nil && p.Verb != VerbStartJob {
		return nil, unknown("no job %q waits for a second person: it was decided or withdrawn, or it has lapsed", id)
	}
	if err != nil {
		return nil, err
	}
	j := &NewJob{Job: job.Job{Action: p.Args["verb"], Effect: p.Args["effect"], Reference: p.Args["reference"],
		Filter: maps.Clone(p.Args)}, Confirms: id}
	for _, name := range []string{"verb", "effect", "reference", "rate"} {
		delete(j.Filter, name)
	}
	if j.Rate, err = strconv.ParseFloat(p.Args["rate"], 64); err == nil {
		err = json.Unmarshal(p.Chosen, &j.Chosen)
	}
	if err != nil {
		return nil, fmt.Errorf("read the pending job %s: %w", id, err)
	}
	return j, nil
}

// confirmedJob finds the pending job that the second person confirms. It ignores the list that was sent. A
// repeated request finds the job that it made.
func (d *Decision) confirmedJob(ctx context.Context, sent *NewJob) (*NewJob, string, error) {
	j, err := ConfirmedJob(ctx, d.o.DB, sent.Confirms)
	if IsFault(err, Unknown) {
		return sent, "job", nil // the request is repeated, or the check refuses it
	}
	return j, "job", err
}

// subjectOf names the target of a decision, as key does in the IDs of requests. The key of a job is the ID of one
// person's job, so its subject is its filter.
func subjectOf(target any, key string) string {
	if j, is := target.(*NewJob); is {
		filter, _ := json.Marshal(j.Filter) // strings always encode
		return "job/" + j.Action + string(filter)
	}
	return key
}

// stateOf is a hash of a decision and of everything that it depends on.
func stateOf(verb string, c *change) (sum [sha256.Size]byte, err error) {
	state := c.state
	if state == nil {
		state = []any{c.before, c.after}
	}
	text, err := json.Marshal([]any{verb, state, c.money})
	return sha256.Sum256(text), err
}

const live = "live"

// liveMoney reports whether an event is about live money. An event that pawl only relays is no money to pawl.
func liveMoney(r *timeline.Receipt) bool { return r.Mode == live && !inputOf(r).OnlyRelays() }

// reviewed reports whether a person reviews an event, or has rejected it.
func reviewed(r *timeline.Receipt) bool {
	_, review := reviewOf(r)
	return review || r.ReasonCode == receipt.Dismissed
}

// judgesEvent reports whether a verb about an event judges live money. A retry and a run judge if they answer a review
// or reverse a rejection.
func judgesEvent(verb string, liveMoney, reviewed bool) bool {
	switch verb {
	case VerbRetry, VerbRun:
		return liveMoney && reviewed
	case VerbReplay, VerbRelease, VerbCancel:
		return false
	}
	return liveMoney
}

// noMoney lists the kinds of tasks that are not about money.
var noMoney = []string{billing.TaskOnboarding, billing.TaskAhead, billing.TaskAlike}

// judgesTask reports whether the end of a task judges live money.
func judgesTask(verb, mode, kind string) bool {
	return verb == VerbCloseTask && mode == live && !slices.Contains(noMoney, kind)
}

// judges reports whether one of the job's items judges live money.
func (j *NewJob) judges() bool {
	if j.Confirms != "" {
		return true
	}
	if j.Action == job.CloseTask {
		return slices.ContainsFunc(j.Others, func(i job.Item) bool {
			mode, kind, _ := taskOf(i.Target)
			return judgesTask(VerbCloseTask, mode, kind)
		})
	}
	return slices.ContainsFunc(j.Chosen.Events, func(e ChosenEvent) bool {
		return judgesEvent(j.Action, e.LiveMoney, e.Reviewed)
	})
}

// changed refuses an item of a job that has changed since the job was decided.
func (d *Decision) changed(at time.Time) error {
	if d.item == nil || d.item.Seen == nil || d.item.Seen.Equal(at) {
		return nil
	}
	return d.refuse("has changed at %s, after the job was decided: it is left out", timeOf(at))
}

// holds adds to the change of an item that its job has not ended. An approval by two people does not outlive the job.
func (d *Decision) holds(c *change) *change {
	made, item := d.Found.(*job.Job)
	if !item || !c.judges || !d.o.FourEyes {
		return c
	}
	checked := *c
	checked.do = func(ctx context.Context, tx pgx.Tx) error {
		holds, err := job.Holds(ctx, tx, made.ID, d.item.Target)
		switch {
		case err != nil:
			return err
		case !holds:
			return d.refuse("is left out: the job has ended")
		case c.do == nil:
			return nil
		}
		return c.do(ctx, tx)
	}
	return &checked
}

// Sums formats sums of money in minor units, by currency. No sums are "".
func Sums(money map[string]int64) string {
	var sums []string
	for _, currency := range slices.Sorted(maps.Keys(money)) {
		sums = append(sums, stripe.Money(money[currency], currency))
	}
	return strings.Join(sums, " + ")
}
