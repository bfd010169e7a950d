package ingress

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// maxText bounds types, objects and versions, in bytes: they are words, and a longer one is nobody's.
const maxText = 255

// accept turns what the provider says into what is kept, and decides whether it is run. It takes
// whatever an authentic payload may hold: no event is refused here.
func (s *Source) accept(e webhook.Event, body []byte) receipt.New {
	if e.Body != nil {
		body = e.Body
	}
	if e.ID == "" {
		e.ID, e.IDOrigin = webhook.HashID(body), webhook.FromHash
	}
	n := receipt.New{
		Account:    identifier(e.Account),
		Mode:       string(e.Mode),
		EventID:    identifier(e.ID),
		Identity:   receipt.Identity(s.Provider.Contract.Identify(e)),
		Type:       text(e.Type),
		Object:     text(e.Object),
		APIVersion: text(e.APIVersion),
		OccurredAt: e.OccurredAt,
		Body:       body,
		Signed:     e.Signed,
	}
	if n.Mode == "" {
		n.Mode = s.mode()
	}
	if y := n.OccurredAt.Year(); y < 1 || y > 9999 {
		n.OccurredAt = time.Time{} // a number that is no time of anything
	}
	var entitled bool
	n.Status, n.Reason, entitled = s.decide(e, n)
	if !entitled {
		n.EventID = receipt.ApartID(n.EventID, s.Name)
	}
	if n.Mode != string(webhook.Live) && n.Mode != string(webhook.Test) {
		n.Mode = s.mode()
	}
	if s.Provider.Contract.Generic {
		n.Account = s.ownAccount(n.Account)
	}
	return n
}

// ownAccount is the account under which an event is held whose sender s is. The sender chooses IDs and accounts, so
// neither may be another sender's: the source's name, which holds no slash, stands before them.
func (s *Source) ownAccount(account string) string {
	if account == "" {
		return s.Name
	}
	return s.Name + "/" + account
}

// decide says what becomes of an event, and whether its source is entitled to its ID. A source's secret speaks for the
// source's mode and accounts alone. What it signs of another one is kept, under an ID of its own: under the event's, it
// would stand where the event belongs that an entitled source brings. It comes first for the same reason.
//
// What stands in the event's problem may be why its account or type is not known. A person is told then.
func (s *Source) decide(e webhook.Event, n receipt.New) (status receipt.Status, reason string, entitled bool) {
	known := n.Mode == string(webhook.Live) || n.Mode == string(webhook.Test)
	entitled = s.routes(n.Account)
	switch {
	case known && s.Mode != "" && n.Mode != string(s.Mode):
		return receipt.Ignored, fmt.Sprintf("%s: a %s event on a %s source", receipt.ModeNotWanted, n.Mode, s.Mode), false
	case !entitled && (n.Account != "" || e.Problem == ""):
		return receipt.Ignored, text(fmt.Sprintf("%s: source %s takes no events of account %q", receipt.AccountNotWanted, s.Name, n.Account)), false
	case !s.wants(n.Type) && (n.Type != "" || e.Problem == ""):
		return receipt.Ignored, text(fmt.Sprintf("%s: source %s neither runs nor relays %q", receipt.TypeNotWanted, s.Name, n.Type)), entitled
	case e.Problem != "":
		return receipt.NeedsReview, text(e.Problem), entitled
	case !known:
		return receipt.NeedsReview, text(fmt.Sprintf("%s: %q", receipt.UnknownMode, n.Mode)), entitled
	}
	return receipt.Received, "", true
}

// identifier returns id as it is where Postgres and Temporal can hold it, else its hash: what
// identifies must never be cut or cleaned, or two IDs could become one.
func identifier(id string) string {
	if len(id) <= webhook.MaxEventID && holdable(id) {
		return id
	}
	return webhook.HashID([]byte(id))
}

// text returns s as Postgres' text can hold it; the raw bytes keep what it was.
func text(s string) string {
	if !holdable(s) {
		s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
	}
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}

func holdable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
