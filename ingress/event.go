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

// maxText bounds types, objects and versions, in bytes. No provider sends a longer one.
const maxText = 255

// maxEvents is how many events of one delivery are run. No provider sends more than a few thousand at once. A delivery
// with more is stored whole, as one event that a person reviews.
const maxEvents = 20_000

// delivery returns the rows of a verified request, live or readmitted. account is the account of events that do not
// contain one.
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
	if r.Method == http.MethodGet { // the query is the body of its event
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
	// The scheme is stored beside the received headers, because relays forward both.
	d.Header.Set(webhook.SchemeHeader, string(cmp.Or(match.Covers, webhook.SignedBody)))
	return d
}

// accept turns the provider's event into a row and decides whether it is run. It accepts every authentic payload and
// never rejects an event.
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

// ownAccount returns the account under which an event of the source s alone is stored. The sender chooses event IDs and
// accounts, so the account starts with the source's name and a slash, which no other source's account can do.
func (s *Source) ownAccount(account string) string {
	if account == "" {
		return s.Name
	}
	return s.Name + "/" + account
}

// decide returns the status of a new event, its reason, and whether the source is entitled to the event's ID. The
// secret of a source proves events of the source's mode and accounts only. An event of another mode or account is
// stored under an ID of its own, so that it cannot take the place of the event from the entitled source. This check
// comes first for the same reason.
//
// A problem in the envelope may be why the account or type is unknown. Such an event is parked for a person.
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

// identifier returns id unchanged if Postgres and Temporal can store it, else its hash. It never truncates or cleans an
// ID, because two IDs could become equal.
func identifier(id string) string {
	if len(id) <= webhook.MaxEventID && holdable(id) {
		return id
	}
	return webhook.HashID([]byte(id))
}

// text returns s in a form that Postgres can store as text. The raw bytes keep the original.
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
