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

// All returns the text of the button of a decision about all events of a list.
func All(verb string) string {
	switch verb {
	case "done":
		return "Mark all as done by hand"
	case "compensate":
		return "Take all back"
	case "run":
		return "Start all"
	}
	return upper(strings.ReplaceAll(verb, "-", " ")) + " all"
}

// Place returns the text of the button that pauses or resumes a sink or a source: "Pause the workspace system".
func Place(verb, kind, name string) string {
	if kind == "sink" {
		return upper(verb) + " " + strings.Replace(SinkIn(name), "Destination ", "destination ", 1)
	}
	return upper(verb) + " " + kind + " " + name
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
