package ingress

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// maxText is the maximum length of types, objects and versions, in bytes. No provider sends longer values.
const maxText = 255

// maxEvents is the maximum number of events in a delivery. No provider sends more than a few thousand at once. A larger
// delivery is stored as one event that a person reviews.
const maxEvents = 20_000

// delivery returns the rows of a verified request, which may be live or readmitted. account is the account of events
// that contain no account.
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
	if r.Method == http.MethodGet { // the event of a GET request is in its query
		d.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request := uuid.NewString()
	for i, e := range events {
		e.Account = cmp.Or(e.Account, account)
		d.Events[i] = s.accept(e, r.Body)
		d.Events[i].Correlation = cmp.Or(s.Correlation.find(r.Header, d.Events[i].Body), request)
	}
	if match.Transmission != "" {
		d.Transmission = receipt.Transmission{ID: identifier(match.Transmission), Body: sha256.Sum256(r.Body)}
	}
	// Store the coverage of the signature with the received headers, because relays forward both.
	d.Header.Set(webhook.SchemeHeader, string(cmp.Or(match.Covers, webhook.SignedBody)))
	return d
}

// accept converts the provider's event to a row, and sets the status that determines whether the event runs. It never
// rejects an authentic event.
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
		Occurrence: text(e.Occurrence),
		Hook:       text(e.Hook),
		Body:       body,
		Signed:     e.Signed,
	}
	if n.Mode == "" {
		n.Mode = s.mode()
	}
	n.RelayOnly = s.Relays && s.Written != nil && !s.Written(n.Type)
	if y := n.OccurredAt.Year(); y < 1 || y > 9999 {
		n.OccurredAt = time.Time{} // out of range: not a time
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

// ownAccount returns the account of an event if the event IDs of the source s are not shared with other sources: the
// name of the source, a slash and account. The sender chooses event IDs and accounts, but cannot use the prefix of
// another source.
func (s *Source) ownAccount(account string) string {
	if account == "" {
		return s.Name
	}
	return s.Name + "/" + account
}

// decide returns the status of a new event, the reason, and whether the source is entitled to the event's ID. A source
// is entitled only to events of its mode and its accounts. Any other event gets an ID of its own, so that it cannot
// block the event from the entitled source. decide therefore checks this first.
//
// If the payload has a problem, the account or type may be unknown for that reason, so the event is parked.
func (s *Source) decide(e webhook.Event, n receipt.New) (status receipt.Status, reason string, entitled bool) {
	known := n.Mode == string(webhook.Live) || n.Mode == string(webhook.Test)
	entitled = s.routes(n.Account)
	switch {
	case known && s.Mode != "" && n.Mode != string(s.Mode):
		return receipt.Ignored, fmt.Sprintf("%s: a %s event on a %s source", receipt.ModeIgnored, n.Mode, s.Mode),
			false
	case !entitled && (n.Account != "" || e.Problem == ""):
		return receipt.Ignored,
			text(fmt.Sprintf("%s: source %s accepts no events of account %q", receipt.AccountIgnored, s.Name,
				n.Account)), false
	case s.Wanted != nil && !s.Wanted(n.Type) && (n.Type != "" || e.Problem == ""):
		return receipt.Ignored,
			text(fmt.Sprintf("%s: source %s neither runs nor relays %q", receipt.TypeIgnored, s.Name, n.Type)),
			entitled
	case e.Problem != "":
		return receipt.NeedsReview, text(e.Problem), entitled
	case !known:
		return receipt.NeedsReview, text(fmt.Sprintf("%s: %q", receipt.UnknownMode, n.Mode)), entitled
	}
	return receipt.Received, "", true
}

// identifier returns id if Postgres and Temporal can store it, and the hash of id otherwise. It never truncates an ID,
// because two IDs could become equal.
func identifier(id string) string {
	if len(id) <= webhook.MaxEventID && holdable(id) {
		return id
	}
	return webhook.HashID([]byte(id))
}

// text replaces the parts of s that Postgres cannot store as text, and truncates s to maxText bytes. The stored body
// still contains the original.
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
