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
	// Mode is the declared mode of the source. An event of the other mode is stored and ignored. If Mode is empty, both
	// modes run, which requires that the events of the provider contain their mode.
	Mode webhook.Mode
	// BodyLimit is in bytes, counted on the bytes read. Zero means the limit of the provider, else of the server.
	BodyLimit int64
	// Wanted reports whether an event type runs; nil means all types. Other types are stored and ignored.
	Wanted func(eventType string) bool
	// Relays reports whether the source has consumers of its own.
	Relays bool
	// Written reports whether an event type has a flow; nil means that every type has one. A suspected replay must not
	// repeat the effects of a flow.
	Written func(eventType string) bool
	// Accounts, when set, lists the provider accounts to run. Events of other accounts are stored and
	// ignored.
	Accounts []string
	// PublicURL is the URL that is registered with the provider, for schemes that sign it.
	PublicURL string
	// Correlation locates the correlation ID of an event.
	Correlation Correlation
	// AllowFrom, when set, lists the networks that may deliver. The signature is verified as well.
	AllowFrom []netip.Prefix
}

// Correlation is a place in a delivery: a header, or a gjson path in the event. The zero value names no place.
type Correlation struct{ Header, Path string }

// find returns the ID at the place, or "" if there is no ID.
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

// mode returns the mode of an event that does not contain one: the source's mode, or live, which is the safe
// assumption.
func (s *Source) mode() string { return string(cmp.Or(s.Mode, webhook.Live)) }

// routes reports whether the source runs events of a provider account.
func (s *Source) routes(account string) bool {
	return len(s.Accounts) == 0 || slices.Contains(s.Accounts, account)
}

func (s *Source) admits(addr netip.Addr) bool {
	return len(s.AllowFrom) == 0 || throttle.Contains(s.AllowFrom, addr)
}

// CalledURL returns the URL that the provider called: the configured URL, never the Host header, with the query of the
// request.
func (s *Source) CalledURL(query string) string { return webhook.CalledURL(s.PublicURL, query) }
