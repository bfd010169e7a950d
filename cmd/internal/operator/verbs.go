package operator

import (
	"slices"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// The names of the verbs. The verbs of [workflows.Decisions] are sent to the parked run of an event. If an event needs
// a review before its first run, approve and reject answer that review.
const (
	VerbRun        = "run"
	VerbReplay     = "replay"
	VerbCancel     = "cancel"
	VerbRetry      = workflows.UpdateRetry
	VerbSkip       = workflows.UpdateSkip
	VerbCompensate = workflows.UpdateCompensate
	VerbDone       = workflows.UpdateDone
	VerbResend     = workflows.UpdateResend
	VerbApprove    = workflows.UpdateApprove
	VerbReject     = workflows.UpdateReject

	VerbWithdraw = "withdraw"

	VerbTakeTask  = "take-task"
	VerbNoteTask  = "note-task"
	VerbClaim     = "claim"
	VerbCorrect   = "correct"
	VerbRegrant   = "regrant"
	VerbCloseTask = job.CloseTask
	VerbAdmit     = "admit"
	VerbReveal    = "reveal"
	VerbStartJob  = "start-job"
	VerbFileGaps  = "file-gaps"
	VerbReconcile = "reconcile"
	VerbRebuild   = "rebuild"
	VerbRefold    = job.Refold

	VerbApplyMeaning = "apply-meaning"
	VerbApplyReading = "apply-reading"
)

// Verb is a decision that a person can make: a row of the table of commands, routes and rights.
type Verb struct {
	// Name identifies the verb in [Decision] and in the audit trail.
	Name string
	// Command is the pawl command of the verb. It is empty if another command, such as pawl gaps, makes the decision.
	Command string
	// Target is the placeholder in the usage text: ID, NAME, …
	Target string
	// Short and Long are the help texts. Why is the help of --why. If it is empty, --why has the default text.
	Short, Long, Why string
	Flags            []Flag
	// Many lists the event statuses that a bulk decision accepts. It is empty if the verb has no bulk form for events.
	// ManyTasks is set if the verb can close many tasks at once.
	Many      []string
	ManyTasks bool
	// Reason limits a bulk decision to events with this reason code. Empty means every reason code.
	Reason string
	// Needs is the required right. Empty means [role.RightDecide].
	Needs role.Right
	// Judges is set if the verb decides about money. It then needs two people if [Operator.FourEyes] is set and the
	// money is live. Retry and replay do not set it: they follow the rules and repeat no completed effect. A retry that
	// answers a review still needs two people.
	Judges bool
	// Previews is set if a dry run shows more than the result of the check.
	Previews bool

	rule decides
}

// Confirmable reports whether a second person may have to confirm the verb.
func (v *Verb) Confirmable() bool { return v.Judges || v.Name == VerbRetry }

// Flag is a command-line flag that fills a field of [Args].
type Flag struct {
	Name, Usage string
	// Value returns the field that the flag sets.
	Value func(*Args) *string
	// Required is set if the command fails without the flag.
	Required bool
}

var (
	flagMode = Flag{Name: "mode", Usage: "live or test, where both have the ID",
		Value: func(a *Args) *string { return &a.Mode }}
	flagKind = Flag{Name: "kind", Usage: "which `kind` of task, where several are open",
		Value: func(a *Args) *string { return &a.Kind }}
)

func flagEffect(otherwise string) Flag {
	return Flag{Name: "effect", Usage: "`key` or kind of one effect (default: " + otherwise + ")",
		Value: func(a *Args) *string { return &a.Effect }}
}

const ofAccount = `

ID is our ID of the account, or what a customer quotes: a customer, a subscription, an invoice, a payment or a charge by the provider's ID,
an invoice's number, or an e-mail address.
The audit trail has who and why.`

// verbs is the table of decisions. init fills it, because a variable initializer would refer to itself through the
// rules.
var verbs []Verb

func init() {
	parked := []string{string(receipt.Dead), string(receipt.NeedsReview)}
	verbs = []Verb{
		{
			Name: VerbRun, Judges: true, Command: "events run", Target: "ID",
			Short: "Run an event that was ignored, or parked before it ran", rule: eventRule, Previews: true,
			Many: []string{string(receipt.Ignored), string(receipt.NeedsReview), string(receipt.Dead)},
			Long: `Run an event that was kept and not run: one that is ignored for its type, which nobody wanted then, or that was parked
before any run (a suspected replay). pawl events list --status ignored lists them. An event that has no flow is
delivered to the consumers of its source; if the source has none, the command says that it cannot be processed.

An event that has run is run again with pawl events replay.`,
		},
		{
			Name: VerbRetry, Command: "events retry", Target: "ID",
			Short: "Let a parked run try its open effects again", rule: eventRule, Previews: true, Many: parked,
			Flags: []Flag{flagEffect("every one that is not done")},
			Long: `Let a parked run try its open effects again; with --effect, that effect alone. Effects in doubt are left as they are:
see pawl events resend.`,
		},
		{
			Name: VerbSkip, Judges: true, Command: "events skip", Target: "ID",
			Short: "Let a parked run go on without its open effects", rule: eventRule, Previews: true, Many: parked,
			Flags: []Flag{flagEffect("every one that is not done")},
		},
		{
			Name: VerbDone, Judges: true, Command: "events done", Target: "ID",
			Short: "Say that an effect of a parked run has happened", rule: eventRule, Previews: true, Many: parked,
			Flags: []Flag{flagEffect("the one that is not done"), {
				Name: "reference", Usage: "`what` the outside calls it (required)", Required: true,
				Value: func(a *Args) *string { return &a.Reference },
			}},
			Long: `Say that an effect has happened, which pawl could not do, or does not know of: somebody has done it by hand, or has seen it
outside. It is done in the ledger then, with the reference, and a later compensation takes it back like any other.
--reference is what the outside calls it: the number of an entry, a line of a mail server's log.`,
		},
		{
			Name: VerbResend, Judges: true, Command: "events resend", Target: "ID",
			Short: "Do an effect once more that may have happened", rule: eventRule, Previews: true,
			Flags: []Flag{flagEffect("the one that is in doubt"), {
				Name: "confirm", Usage: "the effect's `key`, typed once more (default: ask)",
				Value: func(a *Args) *string { return &a.Confirm },
			}},
			Long: `Do an effect once more although it may have happened: a new generation of it, under an idempotency key of its own.
If the first one did happen, it happens twice: the customer has two mails. So it always asks, for the
effect's key, and --yes does not stand for that; a script that has made sure gives --confirm KEY.`,
		},
		{Name: VerbCompensate, Needs: role.RightMoney, Judges: true, Command: "events compensate", Target: "ID",
			Short: "Let a parked run take its effects back", rule: eventRule, Previews: true},
		{
			Name: VerbApprove, Judges: true, Command: "events approve", Target: "ID", Short: "Answer a review with yes",
			Needs: role.RightMoney, rule: eventRule, Previews: true, Many: parked,
			Long: `Answer what a rule asks about an event that needs a review, with yes. The consequence is shown first.
docs/operations/review.md lists the questions and what each answer does.`,
		},
		{
			Name: VerbReject, Judges: true, Command: "events reject", Target: "ID", Short: "Answer a review with no",
			Needs: role.RightMoney, rule: eventRule, Previews: true, Many: parked,
			Long: `Answer what a rule asks about an event that needs a review, with no. The consequence is shown first.
docs/operations/review.md lists the questions and what each answer does.`,
		},
		{
			Name: VerbReplay, Command: "events replay", Target: "ID", Short: "Run an event again whose run has ended",
			rule: eventRule, Previews: true,
			Many: append([]string{string(receipt.Processed), string(receipt.Compensated)}, string(receipt.NeedsReview),
				string(receipt.Dead)),
			Long: `Run an event again, under the same workflow ID and on today's code, once its run has ended: well, compensated, or from
outside. Nothing is done twice: effects that the ledger has as done, skipped or taken back stay so. A run that no worker can go on with is ended. The dispatcher of a running ingress starts the run within seconds.`,
		},
		{
			Name: VerbCancel, Command: "events cancel", Target: "ID", Short: "Stop a run that is at work, and park it",
			rule: eventRule,
			Long: `Stop a run that is at work: one that waits for a sink, say. Effects that are done stay done, those under
way end, and no other is begun. The run parks then, and waits for a decision.`,
		},
		{
			Name: "pause-job", Command: "jobs pause", Target: "ID", Short: "Let a bulk job stand still", rule: jobRule,
			Long: `Let a bulk job stand still after the events that are under way, until it is resumed or cancelled. It needs no
Temporal.`,
		},
		{
			Name: "resume-job", Command: "jobs resume", Target: "ID", Short: "Let a bulk job go on", rule: jobRule,
			Long: `Let a paused bulk job go on. It also starts the run of a job that has none: Temporal did not take it, or somebody has
ended it there. Items that have a result keep it.`,
		},
		{
			Name: "cancel-job", Command: "jobs cancel", Target: "ID", Short: "End a bulk job", rule: jobRule,
			Long: `End a bulk job after the events that are under way. Decisions that were made stay; the other events stay as
they were.`,
		},
		{
			Name: "hold-account", Command: "accounts hold", Target: "ID",
			Short: "Hold back all that an account may use, whatever is paid for", rule: holdRule,
			Flags: []Flag{flagMode}, Previews: true,
			Long: `Hold back all that an account may use, whatever is paid for: where fraud is suspected, say. Its workspace is
suspended within seconds, its subscriptions and invoices go on at the provider, and nobody is asked to release the
workspace meanwhile. pawl accounts release gives back what there is then.` + ofAccount,
		},
		{
			Name: "release-account", Command: "accounts release", Target: "ID",
			Short: "Give back what a hold on an account has taken", rule: holdRule,
			Flags: []Flag{flagMode}, Previews: true,
			Long: `Give back what a hold on an account has taken: access and workspace are brought to what there is now.` + ofAccount,
		},
		{
			Name: VerbTakeTask, Needs: role.RightTasks, Command: "tasks take", Target: "OBJECT",
			Short: "Say that you see to the open task about an object", rule: taskRule,
			Flags: []Flag{flagKind, flagMode},
			Long: `Say that you see to the open task about an object, so that nobody else does. It takes the task over from
anybody who has it. OBJECT is as pawl tasks list shows it.`,
		},
		{
			Name: VerbNoteTask, Needs: role.RightTasks, Command: "tasks note", Target: "OBJECT",
			Short: "Note something about the open task about an object", rule: taskRule,
			Flags: []Flag{flagKind, flagMode}, Why: "the note (required)",
			Long: `Note something about the open task about an object. pawl tasks show has all notes, with who and when.`,
		},
		{
			Name: VerbClaim, Judges: true, Needs: role.RightMoney, Command: "money claim", Target: "ID",
			Short: "Assign money that is not booked to an account, and book it", rule: claimRule,
			Flags: []Flag{{Name: "account", Usage: "the `account` that gets the money (required)", Required: true,
				Value: func(a *Args) *string { return &a.Account }}, flagMode}, Previews: true,
			Long: `Assign an object that is not booked to an account, and book it: a payment with its refunds and disputes, a
refund, a dispute, a credit note or a checkout session. pawl money unclaimed lists these objects. An invoice books its own
payments: claim the refund or the dispute of an invoice, and not its payment. A checkout session is claimed as a whole:
the account has the purchase, and the e-mail is sent.

A claim is final: the object and its entry stay at the account. An account that pawl does not know is created, so check
the name with --dry-run, which warns about a new account. docs/operations/unassigned-money.md states what you can do
after a claim for the wrong account. The audit trail contains your name and the reason.`,
		},
		{
			Name: VerbCorrect, Judges: true, Needs: role.RightMoney, Command: "money correct", Target: "ID",
			Short: "Book the difference to what was booked of an invoice or a refund", rule: correctRule,
			Flags: []Flag{flagMode}, Previews: true,
			Long: `Book the difference between what is booked of an object and what its facts say. A task entry_differs
asks for that where bodies were read again, or another meaning came into force. The entry is a correction, dated today,
and finance gets it within seconds. pawl tasks close lets things stand instead. The audit trail has who and why.`,
		},
		{
			Name: VerbRegrant, Judges: true, Needs: role.RightMoney, Command: "money regrant", Target: "ID",
			Short: "Grant a withheld order again", rule: regrantRule, Flags: []Flag{flagMode}, Previews: true,
			Long: `Grant an order again that is withheld, because your workspace API refused it or a person rejected its review. ID is the
subscription, the one-off invoice or the checkout session. Remove the cause of the refusal first: if the workspace API
refuses the order again, the run of the scheduled action is parked.

The workspace of the account follows within seconds. The customer receives an e-mail only if the plan or the seats of a
subscription change. Entries stay as they are: if the payment was reversed, book it in your finance system.

pawl tasks list --kind correction lists the withheld orders. The audit trail contains your name and the reason.`,
		},
		{
			Name: VerbCloseTask, Judges: true, Needs: role.RightTasks, Command: "tasks close", Target: "OBJECT",
			Short: "Say that the open task about an object is done, or all of one cause", rule: taskRule,
			Flags: []Flag{flagKind, flagMode}, ManyTasks: true,
			Long: `Say that the open task about an object is done. OBJECT is as pawl tasks list shows it. The audit trail has who and
why. A review is closed by deciding about its event.

Without OBJECT all open tasks of one cause are closed, as a job: those of --kind, and what else narrows them.
--dry-run lists them. pawl jobs show has a result for each, and the audit trail a line.`,
		},
		{
			Name: VerbWithdraw, Command: "pending withdraw", Target: "ID", Needs: role.RightTasks, rule: withdrawRule,
			Short: "Drop a decision that waits for a second person",
			Long: `Drop a decision that waits for a second person: whoever asked for it thinks better of it, or the second one says no.
It takes the right that the decision takes. pawl status lists what waits, with the ID of each.`,
		},
		{
			Name: "forget", Needs: role.RightAdmin, Command: "forget", Target: "CUSTOMER",
			Short: "Erase what is held of a customer: address, bodies, kept requests", rule: forgetRule,
			Flags: []Flag{flagMode}, Previews: true,
			Long: `Erase what is held of a customer and may be personal data: the address, the bodies of all events that name the
customer, the requests of effects that are not done, and refused requests. Facts, the ledger and the audit trail hold no
personal data and stay. It refuses while an event about the customer is not at rest. It reads all bodies that are held.

The customer stays forgotten: no event, import or reconciliation keeps an address again, and no letter is sent. The
bodies of later events are kept like any others; the command can be repeated. Delete the customer at the provider first.

CUSTOMER is the provider's ID, cus_…, or of a guest the checkout session's.`,
		},
		{
			Name: "export", Command: "export", Target: "CUSTOMER", Short: "Show what is held of a customer, whole",
			Needs: role.RightReveal, rule: exportRule, Flags: []Flag{flagMode},
			Long: `Show what is held of a customer and may be personal data, as pawl forget would erase it: the address, the bodies of all
events that name the customer, and refused requests. It goes into the audit trail, without the data; --json has all.

CUSTOMER is the provider's ID, cus_…, or of a guest the checkout session's.`,
		},
		{
			Name: VerbAdmit, Command: "rejections admit", Target: "ID",
			Short: "Verify a refused request again, and take it in", rule: admitRule,
			Long: `Verify a refused request again, with the secrets that are configured now and against the time when
it came, and take it in as if it came now. A request that is still refused stays out.`,
		},
		{Name: VerbReveal, Target: "ID", Short: "Show the payload of an event, whole",
			Needs: role.RightReveal, rule: revealRule},
		{Name: VerbRevealLetters, Target: "ID", Short: "Show the letters of an event with their addresses",
			Needs: role.RightReveal, rule: revealLettersRule},
		{Name: VerbRevealRejection, Target: "ID", Short: "Show a refused request, whole",
			Needs: role.RightReveal, rule: revealRejectionRule},
		{Name: VerbStartJob, Target: "ID", Short: "Decide about many events at once", rule: startJobRule},
		{Name: VerbFileGaps, Target: "SOURCE", Short: "Take in what a provider has sent and never came",
			rule: gapsRule},
		{Name: VerbReconcile, Target: "ACCOUNT", Short: "Bring an account to what the provider says",
			rule: reconcileRule},
		{Name: VerbRebuild, Target: "ACCOUNT", Short: "Bring an account's rows to what its facts come to",
			rule: rebuildRule, Flags: []Flag{flagMode}},
		{Name: VerbApplyMeaning, Judges: true, Command: "meaning apply", Target: "HASH",
			Short: "Bring another meaning of the facts into force", Needs: role.RightAdmin, rule: applyMeaningRule,
			Flags: []Flag{{Name: "letters", Usage: "send letters of this `kind` as well, or of several kinds",
				Value: func(a *Args) *string { return &a.Letters }}},
			Long: `Bring a meaning that a process has proposed into force for all processes, as a job of a worker, which folds the accounts
anew that the meaning hits. pawl meaning show lists the hashes. pawl meaning diff --hash HASH shows the accounts.`},
		{Name: VerbRefold, Target: "MODE/ACCOUNT", Short: "Fold an account anew, by the meaning in force",
			rule: refoldRule},
		{Name: VerbApplyReading, Target: "READING", Short: "Have the facts of another reading of kept bodies count",
			Needs: role.RightAdmin, rule: applyReadingRule},
		{Name: job.Reread, Target: "MODE/ACCOUNT", Short: "Fold an account anew, of which bodies were read again",
			rule: refoldRule},
		{Name: job.Announce, Target: "MODE/ACCOUNT", Short: "Tell subscribers what an account may use",
			rule: announceRule},
	}
	verbs = slices.Concat(verbs, pauseVerbs(), effectVerbs(), tokenVerbs())
}

// Verbs returns the table of decisions.
func Verbs() []Verb { return verbs }

// VerbNamed returns the verb with the name, or nil if the table does not contain it.
func VerbNamed(name string) *Verb {
	if i := slices.IndexFunc(verbs, func(v Verb) bool { return v.Name == name }); i >= 0 {
		return &verbs[i]
	}
	return nil
}
