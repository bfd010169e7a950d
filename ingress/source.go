package ingress

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Source is one endpoint, /hooks/{name}.
type Source struct {
	Name     string
	Provider webhook.Provider
	Verifier webhook.Verifier
	// Mode is the configured mode of the source. An event of the other mode is stored and ignored. If Mode is empty,
	// events of both modes run; this requires that the provider's events contain their mode.
	Mode webhook.Mode
	// BodyLimit is the maximum size of a body in bytes. Zero means the limit of the provider, or of the server if the
	// provider has no limit.
	BodyLimit int64
	// Wanted reports whether events of a type run. Events of other types are stored and ignored. nil means that all
	// types run.
	Wanted func(eventType string) bool
	// Relays reports whether the source has destinations.
	Relays bool
	// Written reports whether an event type has a flow. nil means that every type has a flow. The server needs it
	// because a suspected replay must not repeat the effects of a flow.
	Written func(eventType string) bool
	// Accounts, when set, lists the provider accounts with events that run. Events of other accounts are stored and
	// ignored.
	Accounts []string
	// PublicURL is the URL that is registered with the provider, for schemes that sign it.
	PublicURL string
	// Correlation is the place of the correlation ID in a delivery.
	Correlation Correlation
	// AllowFrom, when set, lists the networks that may send deliveries. The signature is also verified.
	AllowFrom []netip.Prefix
}

// Correlation is a place in a delivery: a header, or a gjson path in the event. The zero value names no place.
type Correlation struct{ Header, Path string }

// find returns the correlation ID of a delivery, or "".
func (c Correlation) find(header http.Header, body []byte) string {
	if c.Path != "" {
		return text(gjson.GetBytes(body, c.Path).String())
	}
	return text(header.Get(c.Header))
}

func (s *Source) check(name string) error {
	var faults []error
	if s.Name != name {
		faults = append(faults, fmt.Errorf("source %q: its name is %q", name, s.Name))
	}
	if s.Verifier == nil {
		faults = append(faults, fmt.Errorf("source %q has no verifier", name))
	}
	if s.Provider.Name == "" {
		faults = append(faults, fmt.Errorf("source %q has no provider", name))
	}
	switch {
	case s.Mode == webhook.Live, s.Mode == webhook.Test:
	case s.Mode == "" && s.Provider.Contract.Mode != "":
	case s.Mode == "":
		faults = append(faults, fmt.Errorf("source %q: events of %s contain no mode; set mode to live or test",
			name, s.Provider.Name))
	default:
		faults = append(faults, fmt.Errorf("source %q: mode is %q, want live or test", name, s.Mode))
	}
	if s.BodyLimit < 0 {
		faults = append(faults, fmt.Errorf("source %q: body limit is negative", name))
	}
	return errors.Join(faults...)
}

// mode returns the mode of an event that contains no mode: the source's mode, or live, which is the safe assumption.
func (s *Source) mode() string { return string(cmp.Or(s.Mode, webhook.Live)) }

// routes reports whether the events of a provider account run.
func (s *Source) routes(account string) bool {
	return len(s.Accounts) == 0 || slices.Contains(s.Accounts, account)
}

func (s *Source) admits(addr netip.Addr) bool {
	return len(s.AllowFrom) == 0 || throttle.Contains(s.AllowFrom, addr)
}

// CalledURL returns the URL that the provider called: the configured URL, never the Host header, with the query of the
// request.
func (s *Source) CalledURL(query string) string { return webhook.CalledURL(s.PublicURL, query) }
