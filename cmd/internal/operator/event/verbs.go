package event

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Verbs lists the verbs about events.
var Verbs = decide.Verbs{Run, Retry, Skip, Done, Resend, Compensate, Approve, Reject, Replay, Cancel, Reveal,
	RevealEmails, EffectsOn,
	EffectsOff, Release}
