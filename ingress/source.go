package ingress

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Source is one endpoint, /hooks/{name}.
type Source struct {
	Name     string
	Provider webhook.Provider
	Verifier webhook.Verifier
	// Secrets are those of the verifier. A probe is proven with one of them.
	Secrets []webhook.Secret
	// Mode is the source's declared mode; an event of the other mode is kept and ignored. Empty is for
	// a provider whose events say their mode: both are then taken.
	Mode webhook.Mode
	// BodyLimit is in bytes, counted on the bytes read; zero means the provider's, else the server's.
	BodyLimit int64
	// Wanted says which event types are run; nil means all. Other types are kept and ignored.
	Wanted func(eventType string) bool
	// Relays says that the source has consumers of its own.
	Relays bool
	// Accounts, when set, lists the provider-side accounts that are routed; others are kept and ignored.
	Accounts []string
	// PublicURL is the URL that the provider was given, for schemes that sign it.
	PublicURL string
	// Correlation says where a delivery names what its events belong to.
	Correlation Correlation
	// AllowFrom, when set, lists the networks that may deliver. It stands beside the signature and
	// never instead of it.
	AllowFrom []netip.Prefix
}

// Correlation is a place in a delivery: a header, or a path of gjson in the event. The zero value names no place.
type Correlation struct{ Header, Path string }

// of returns the ID at the place, "" if none is there.
func (c Correlation) of(header http.Header, body []byte) string {
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
		faults = append(faults, fmt.Errorf("source %q: events of %s do not say their mode: set mode to live or test",
			name, s.Provider.Name))
	default:
		faults = append(faults, fmt.Errorf("source %q: mode is %q, want live or test", name, s.Mode))
	}
	if s.BodyLimit < 0 {
		faults = append(faults, fmt.Errorf("source %q: body limit is negative", name))
	}
	return errors.Join(faults...)
}

// mode is the mode of an event that does not tell its own: the source's, or live, which is the one to be
// careful with.
func (s *Source) mode() string { return string(cmp.Or(s.Mode, webhook.Live)) }

// routes reports whether events of a provider-side account are run.
func (s *Source) routes(account string) bool {
	return len(s.Accounts) == 0 || slices.Contains(s.Accounts, account)
}

func (s *Source) admits(addr netip.Addr) bool {
	return len(s.AllowFrom) == 0 || contains(s.AllowFrom, addr)
}

// CalledURL returns the URL that the provider called: that of the configuration, never of the Host header, with the
// query that came.
func (s *Source) CalledURL(query string) string { return webhook.CalledURL(s.PublicURL, query) }
