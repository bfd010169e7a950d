package ingress

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// maxText bounds types, objects and versions, in bytes: they are words, and a longer one is nobody's.
const maxText = 255

// maxEvents is how many events of a delivery are run. No provider sends more than some thousand at once. A delivery
// with more is kept whole, as one event that waits for a person.
const maxEvents = 20_000

// delivery returns the rows of a verified request, live or readmitted. account is that of events which do not say
// theirs.
func (s *Source) delivery(r *webhook.Request, match webhook.Match, account string) receipt.Delivery {
	events := s.Verifier.Events(r)
	if len(events) > maxEvents {
		events = []webhook.Event{{Problem: fmt.Sprintf("%s: %d, and a delivery is run up to %d", webhook.TooManyEvents,
			len(events), maxEvents)}}
	}
	d := receipt.Delivery{Source: s.Name, Provider: s.Provider.Name, Generic: s.Provider.Contract.Generic,
		Relays: s.Relays, ReceivedAt: r.ReceivedAt,
		Secret: match.Secret,
		Header: webhook.HeadersOf(s.Provider, s.Verifier).OfReceipt(r.Header), Events: make([]receipt.New, len(events))}
	request := uuid.NewString()
	for i, e := range events {
		e.Account = cmp.Or(e.Account, account)
		d.Events[i] = s.accept(e, r.Body)
		d.Events[i].Correlation = cmp.Or(s.Correlation.of(r.Header, d.Events[i].Body), request)
	}
	if match.Transmission != "" {
		d.Transmission = receipt.Transmission{ID: identifier(match.Transmission), Body: sha256.Sum256(r.Body)}
	}
	// Beside the headers that came, as the bytes are relayed with both.
	d.Header.Set(webhook.SchemeHeader, string(cmp.Or(match.Covers, webhook.SignedBody)))
	return d
}

// accept turns the provider's event into a row, and decides whether it is run. It takes any authentic payload: no
// event is refused here.
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
// source's mode and accounts alone. An event of another one is kept under an ID of its own, so that it cannot take the
// place of the event that an entitled source brings. This is decided first for the same reason.
//
// The event's problem may be the reason why its account or type is not known. A person is told then.
func (s *Source) decide(e webhook.Event, n receipt.New) (status receipt.Status, reason string, entitled bool) {
	known := n.Mode == string(webhook.Live) || n.Mode == string(webhook.Test)
	entitled = s.routes(n.Account)
	switch {
	case known && s.Mode != "" && n.Mode != string(s.Mode):
		return receipt.Ignored, fmt.Sprintf("%s: a %s event on a %s source", receipt.ModeNotWanted, n.Mode, s.Mode),
			false
	case !entitled && (n.Account != "" || e.Problem == ""):
		return receipt.Ignored,
			text(fmt.Sprintf("%s: source %s takes no events of account %q", receipt.AccountNotWanted, s.Name,
				n.Account)), false
	case s.Wanted != nil && !s.Wanted(n.Type) && (n.Type != "" || e.Problem == ""):
		return receipt.Ignored,
			text(fmt.Sprintf("%s: source %s neither runs nor relays %q", receipt.TypeNotWanted, s.Name, n.Type)),
			entitled
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

// text returns s in a form that Postgres can hold as text. The raw bytes keep the original.
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
