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
	n := receipt.New{
		Account:    identifier(e.Account),
		Mode:       string(e.Mode),
		EventID:    identifier(e.ID),
		IDOrigin:   string(e.IDOrigin),
		Type:       text(e.Type),
		Object:     text(e.Object),
		APIVersion: text(e.APIVersion),
		OccurredAt: e.OccurredAt,
		Body:       body,
		Signed:     e.Signed,
	}
	if n.EventID == "" {
		n.EventID, n.IDOrigin = webhook.HashID(body), string(webhook.FromHash)
	}
	if n.IDOrigin == "" {
		n.IDOrigin = string(webhook.FromBody)
	}
	// Also without the header: who leaves it out, or changes an account that stands in one, must not make
	// another event of the same bytes.
	n.Unsigned = !s.Provider.Contract.IDSigned && !e.IDSigned && n.IDOrigin != string(webhook.FromBody)
	if n.Mode == "" {
		n.Mode = s.mode()
	}
	if y := n.OccurredAt.Year(); y < 1 || y > 9999 {
		n.OccurredAt = time.Time{} // a number that is no time of anything
	}
	n.Restamped = s.Provider.Contract.Restamped
	if e.KeyUnsigned && n.IDOrigin == string(webhook.FromBody) {
		// What identifies it stands in the ID that is signed and elsewhere. Other bytes under both are no other
		// event: the ID is the sender's.
		n.Unsigned, n.Restamped, n.IDOrigin = true, true, string(webhook.FromHeader)
	}
	n.Status, n.Reason = s.decide(e, n)
	if n.Mode != string(webhook.Live) && n.Mode != string(webhook.Test) {
		n.Mode = s.mode()
	}
	if n.Account == "" && s.Provider.Contract.Generic {
		n.Account = s.Name
	}
	return n
}

func (s *Source) decide(e webhook.Event, n receipt.New) (receipt.Status, string) {
	switch {
	case e.Problem != "":
		return receipt.NeedsReview, text(e.Problem)
	case n.Mode != string(webhook.Live) && n.Mode != string(webhook.Test):
		return receipt.NeedsReview, text(fmt.Sprintf("unknown_mode: %q", n.Mode))
	case s.Mode != "" && n.Mode != string(s.Mode):
		return receipt.Ignored, fmt.Sprintf("wrong_mode: a %s event on a %s source", n.Mode, s.Mode)
	case !s.routes(n.Account):
		return receipt.Ignored, text(fmt.Sprintf("account_not_routed: %q", n.Account))
	case !s.wants(n.Type):
		return receipt.Ignored, text(fmt.Sprintf("type_not_wanted: %q", n.Type))
	}
	return receipt.Received, ""
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
