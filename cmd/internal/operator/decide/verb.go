package decide

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawlhq/pawl/cmd/internal/role"
)

// JudgesEvent reports whether this decision, applied to an event, affects live money.
func (d *Decision) JudgesEvent(liveMoney, reviewed bool) bool {
	return d.verb.judgesEvent(liveMoney, reviewed)
}

// judgesEvent reports whether the verb, applied to an event, affects live money.
func (v *Verb) judgesEvent(liveMoney, reviewed bool) bool {
	if v.JudgesReviews {
		return liveMoney && reviewed
	}
	return liveMoney && v.Judges
}

// Verb is a kind of decision that a person can make. Commands, API routes and rights are derived from the table of
// verbs.
type Verb struct {
	// Name identifies the verb in [Decision] and in the audit trail.
	Name string
	// Command is the pawl command of the verb. It is empty if another command, such as `pawl events backfill`, makes
	// the decision.
	Command string
	// Target is the placeholder in the usage text: ID, NAME, …
	Target string
	// Short and Long are the help texts. ReasonHelp is the help of --reason. If it is empty, --reason has the default
	// text.
	Short, Long, ReasonHelp string
	Flags                   []Flag
	// Many lists the event statuses that a bulk decision accepts. It is empty if the verb has no bulk form for events.
	// ManyTasks is set if the verb can close many tasks at once.
	Many      []string
	ManyTasks bool
	// Reason limits a bulk decision to events with this reason code. Empty means every reason code.
	Reason string
	// Needs is the required right. Empty means [role.RightDecide].
	Needs role.Right
	// Judges is set if the verb decides about money. Such a decision needs two people if [Operator.FourEyes] is set
	// and the money is live. Retry and replay do not set it, because they follow the rules and repeat no completed
	// effect.
	Judges bool
	// JudgesReviews is set if the verb decides about money only when it answers a review or reverses a rejection.
	JudgesReviews bool
	// JudgesItem, if set, reports whether the verb decides about live money for a job item that is not an event.
	JudgesItem func(target string) bool
	// Item, if set, makes the decision about an item of a job. Otherwise the target of the item becomes the target of
	// the decision.
	Item func(ctx context.Context, o *Operator, d Decision) (says string, err error)
	// Previews is set if a dry run shows more than the result of the check.
	Previews bool

	Rule decides
}

// Confirmable reports whether the verb can require the confirmation of a second person.
func (v *Verb) Confirmable() bool { return v.Judges || v.JudgesReviews }

// Flag is a command-line flag that fills a field of [Args].
type Flag struct {
	Name, Usage string
	// Value returns the field that the flag sets.
	Value func(*Args) *string
	// Required is set if the command fails without the flag.
	Required bool
}

// Flags that several verbs share.
var (
	// FlagMode selects the mode of an ID that exists in both modes.
	FlagMode = Flag{Name: "mode", Usage: "live or test, if the ID exists in both modes",
		Value: func(a *Args) *string { return &a.Mode }}
	// FlagKind selects one of several open tasks about an object.
	FlagKind = Flag{Name: "kind", Usage: "the `kind` of the task, if several tasks are open",
		Value: func(a *Args) *string { return &a.Kind }}
)

// Verbs lists verbs with different names.
type Verbs []Verb

// Named returns the verb with the name, or nil if the table does not contain it.
func (t Verbs) Named(name string) *Verb {
	if i := slices.IndexFunc(t, func(v Verb) bool { return v.Name == name }); i >= 0 {
		return &t[i]
	}
	return nil
}

// Rights returns the rights that permit the verb. A person needs one of them. A person with the right to decide about
// money may also decide about the effects of an event, as the first or the second person.
func (v *Verb) Rights() []role.Right {
	needs := cmp.Or(v.Needs, role.RightDecide)
	if v.Judges && needs == role.RightDecide {
		return []role.Right{needs, role.RightMoney}
	}
	return []role.Right{needs}
}

// reveals reports whether the verb shows personal data. Such a verb never counts as repeated: each request is
// recorded.
func (v *Verb) reveals() bool { return v.Needs == role.RightReveal }
