package label

import "strings"

// Verb returns the text of the button of a decision.
func Verb(name string) string {
	if text, known := verbs[name]; known {
		return text
	}
	return upper(strings.ReplaceAll(name, "-", " "))
}

var verbs = map[string]string{
	"retry":      "Try the failed steps again",
	"skip":       "Skip the open steps",
	"done":       "Mark as done by hand",
	"resend":     "Send again",
	"approve":    "Approve",
	"reject":     "Reject",
	"compensate": "Take everything back",
	"replay":     "Run again",
	"run":        "Start",
	"cancel":     "Stop",

	"hold-account":    "Suspend the account",
	"release-account": "Restore the account",
	"assign":          "Assign to an account",
	"correct":         "Correct the entry",
	"regrant":         "Grant the access again",

	"take-task":  "Take the task",
	"note-task":  "Add a note",
	"close-task": "Close the task",
	"admit":      "Check again and admit",
	"withdraw":   "Withdraw the request",
	"pause-job":  "Pause",
	"resume-job": "Resume",
	"cancel-job": "Cancel the job",
}

// Step returns the text of the button of a decision about one effect.
func Step(verb, kind string) string {
	name := KindOf(kind).Name
	switch verb {
	case "retry":
		return "Try again: " + name
	case "skip":
		return "Skip: " + name
	case "done":
		return "Done by hand: " + name
	case "resend":
		return "Send again: " + name
	}
	return Verb(verb) + ": " + name
}
