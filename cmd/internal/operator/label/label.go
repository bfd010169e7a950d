// Package label contains the words that people read instead of codes: for kinds of effects, statuses, reason codes,
// sinks and decisions. Pages, sentences and messages use it. JSON, filters and metrics keep the codes.
package label

import "strings"

// Word returns the label of a status, a state, a kind of e-mail or another code of one word. An unknown code keeps its
// own words.
func Word(code string) string {
	if w, known := words[code]; known {
		return w
	}
	if name, known := emails[code]; known {
		return name
	}
	return strings.ReplaceAll(code, "_", " ")
}

// words maps the codes that badges show to their labels.
var words = map[string]string{
	// Events.
	"received": "Waiting to start", "processing": "In progress", "retrying": "Retrying",
	"needs_review": "Needs a decision", "dead": "Failed", "processed": "Done", "compensated": "Taken back",
	"ignored": "Ignored",
	// Effects and attempts.
	"claimed": "In progress", "failed": "Failed", "uncertain": "Unclear", "done": "Done", "skipped": "Skipped",
	"already_done": "Done before", "tried again": "Retrying", "not begun": "Not started",
	// E-mails.
	"sent": "Sent", "waiting": "Waiting", "unclear": "Unclear", "taken_back": "Taken back",
	// Sinks, sources, jobs and their items.
	"up": "Working", "down": "Down", "still down": "Still down",
	"paused": "Paused", "running": "Running", "finished": "Finished",
	"cancelled": "Cancelled", "refused": "Refused", "open": "Open", "both": "Live and test",
	// Access.
	"active": "Active", "suspended": "No access", "none": "No access", "on hold": "On hold",
	"limited": "Active, with a problem",
	// Subscriptions.
	"past_due": "Payment overdue", "canceled": "Ended", "trialing": "Trial", "incomplete": "First payment open",
	"incomplete_expired": "Never paid", "unpaid": "Unpaid", "unknown": "Unknown",
	// Invoices, refunds, disputes and credit notes.
	"draft": "Draft", "paid": "Paid", "void": "Void", "uncollectible": "Written off", "pending": "Pending",
	"succeeded": "Paid out", "needs_response": "Needs an answer", "under_review": "Under review", "won": "Won",
	"lost": "Lost", "warning_needs_response": "Inquiry, needs an answer",
	"warning_under_review": "Inquiry under review", "warning_closed": "Inquiry closed", "issued": "Issued",
	"requires_action": "Needs an action", "refund": "Refund", "dispute": "Dispute", "credit_note": "Credit note",
	// Conditions, rules, tokens and people.
	"page": "Urgent", "ticket": "To do", "info": "For information", "proposed": "Proposed", "replaced": "Replaced",
	"accepted": "Accepted", "revoked": "Revoked", "expired": "Expired", "live": "Live", "test": "Test",
	"removed": "Removed",
}

// Task returns the label of a kind of task.
func Task(kind string) string {
	if text, known := tasks[kind]; known {
		return text
	}
	return strings.ReplaceAll(kind, "_", " ")
}

// TaskTitle is [Task] with an upper-case first letter.
func TaskTitle(kind string) string { return upper(Task(kind)) }

var tasks = map[string]string{
	"onboarding": "welcome the customer", "reconcile": "compare with Stripe", "release": "release the workspace",
	"review": "answer a review", "dispute": "answer a dispute", "inquiry": "answer an inquiry",
	"fraud_warning": "check a fraud warning", "correction": "refund, or grant the order again",
	"finalization_failed": "correct a draft invoice", "entry_differs": "correct a finance entry",
	"unknown_price": "map a price to a plan", "unknown_account": "link a connected account",
	"unknown_currency": "check a currency", "similar_account": "check a similar account ID",
	"clock_ahead": "compare the clocks",
}

// Entry returns the label of a step in the history of an event. Any other text stays as it is.
func Entry(what string) string {
	if text, known := entries[what]; known {
		return text
	}
	if state, found := strings.CutPrefix(what, "effect-already-"); found {
		return "Before, by another event: " + Word(state)
	}
	if verb, found := strings.CutPrefix(what, "operator-"); found {
		return "Decision: " + Verb(verb)
	}
	return what
}

var entries = map[string]string{
	"delivered": "Delivered", "duplicate": "Delivered again", "ignored": "Delivered, and ignored",
	"replay": "Delivered, suspected replay", "received": "Stored", "run-started": "Run started",
	"run-closed": "Run ended", "run-cancelled": "Run cancelled", "run-terminated": "Run terminated",
	"run-reset": "Run reset", "effect-claimed": "Step started", "effect-done": "Step done",
	"effect-failed": "Step failed", "effect-uncertain": "Step unclear", "effect-skipped": "Step skipped",
	"effect-already-done": "Done before", "order-uncertain": "Order unclear", "event-queued": "Message prepared",
	"event-published": "Message sent",
	"sink-down":       "Connected system down",
}

// Condition returns the label of a kind of condition. known is false for a kind without a label.
func Condition(kind string) (text string, known bool) {
	if text, known = conditions[kind]; known {
		return text, true
	}
	return upper(strings.ReplaceAll(kind, "-", " ")), false
}

var conditions = map[string]string{
	"parked": "Event", "repeated": "Repeated delivery", "unstarted": "Events do not start", "no-worker": "No worker",
	"uncertain": "Unclear", "task": "Task", "second-person": "Second person", "unassigned": "Money without account",
	"unmapped": "Unknown connected account", "rules": "Billing rules", "job": "Job", "sink": "Down",
	"paused": "Paused", "destination": "Not delivered", "unsent": "Notification not sent",
	"silent": "Silent source", "failing": "Failing source", "endpoint": "Webhook endpoint", "rejected": "Rejected",
	"unrouted": "Source without use", "secret": "Secret expires", "schedule": "Schedule", "audit": "Audit trail",
	"refused": "Refused", "shed": "Overload", "slow": "Slow", "overdue": "Overdue", "compensated": "Taken back",
	"server": "Server", "unavailable": "Not available", "database": "Database",
}

// Field returns the label of a field of a decision, or "" for a field without a label of its own.
func Field(name string) string { return fields[name] }

var fields = map[string]string{
	"effect": "Only this step (optional)", "reference": "Number or ID in the other system", "mode": "Mode",
	"kind": "Kind of task", "account": "Account", "rate": "Most events per second",
}

// Sink returns the name of an outside system for people. An unknown sink keeps its name.
func Sink(name string) string {
	base, part, split := strings.Cut(name, ":")
	switch base {
	case "finance":
		base = "Finance"
	case "workspaces":
		base = "The workspace system"
	case "email":
		base = "The mail server"
	case "stripe":
		base = "Stripe"
	case "database":
		base = "pawl's database"
	case "destinations":
		return "Destination " + part
	}
	if split {
		return base + " (" + part + ")"
	}
	return base
}

// SinkIn returns the name of an outside system within a sentence.
func SinkIn(name string) string { return lower(Sink(name)) }

// upper returns text with an upper-case first letter. It keeps the name of the program in lower case.
func upper(text string) string {
	if text == "" || strings.HasPrefix(text, "pawl") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
