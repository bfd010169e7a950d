package main

import "github.com/pawlhq/pawl/cmd/internal/command"

// retired lists the commands and flags that pawl no longer has.
var retired = command.Retired{
	Commands: map[string]string{
		"accounts reread": "rebuild --from-payloads",
		"events body":     "events payload",
		"events done":     "events mark-done",
		"events run":      "events start",
		"gaps":            "events backfill",
		"letters":         "emails",
		"meaning":         "rules",
		"money claim":     "payments assign",
		"money correct":   "entries correct",
		"money regrant":   "payments regrant",
		"money unclaimed": "payments unassigned",
		"pause consumer":  "sinks pause",
		"pause sink":      "sinks pause",
		"pause source":    "sources pause",
		"pending":         "approvals",
		"ready":           "healthcheck",
		"resume consumer": "sinks resume",
		"resume sink":     "sinks resume",
		"resume source":   "sources resume",
	},
	Flags: map[string]string{
		"why":    "reason",
		"who":    "as",
		"reason": "reason-code", // renamed because it filters by reason code
	},
}
