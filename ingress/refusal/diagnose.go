package refusal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/rejection"
)

// The codes of findings, beside those of [webhook.Hinter].
const (
	ClockOff          = "clock_off"
	SecretNotActive   = "secret_not_active"
	OtherSource       = "signed_for_another_source"
	TestSecretOnLive  = "test_secret_on_live_source"
	LiveSecretOnTest  = "live_secret_on_test_source"
	BodyChanged       = "body_changed"
	URLDiffers        = "url_differs"
	NoSignatureHeader = "no_signature_header"
	UnknownScheme     = webhook.UnknownScheme
	OtherMode         = "event_of_the_other_mode"
)

// Source is what a diagnosis knows of a configured source.
type Source struct {
	Provider webhook.Provider
	// Settings are the source's, with every secret that it has, also those out of their window.
	Settings webhook.Settings
}

// Diagnosis is what was found about a refused request.
type Diagnosis struct {
	Findings []rejection.Finding
	// Likely is set where a signature fitted in some way: the sender has a secret of ours.
	Likely bool
}

func (d *Diagnosis) add(code, format string, args ...any) {
	d.Findings = append(d.Findings, rejection.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
}

// String joins the findings to one sentence each.
func (d Diagnosis) String() string {
	texts := make([]string, len(d.Findings))
	for i, f := range d.Findings {
		texts[i] = f.Text
	}
	return strings.Join(texts, "; ")
}

// Diagnoser explains refusals. It is safe for concurrent use.
type Diagnoser struct {
	probes map[string]*probe
	names  []string
}

// NewDiagnoser returns a diagnoser that knows sources by name. A source whose verifier cannot be made
// is an error, as it is where it is served.
func NewDiagnoser(sources map[string]Source) (*Diagnoser, error) {
	d := &Diagnoser{probes: map[string]*probe{}, names: slices.Sorted(maps.Keys(sources))}
	var faults []error
	for _, name := range d.names {
		p, err := newProbe(sources[name])
		if err != nil {
			faults = append(faults, fmt.Errorf("diagnose source %s: %w", name, err))
			continue
		}
		d.probes[name] = p
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	for name, p := range d.probes {
		p.strangers, p.owners = strangers(name, d.names, sources)
	}
	return d, nil
}

// strangers returns a probe of the source with the secrets of all others that its scheme can use, and
// whose they are by label: who swaps two secrets in the configuration gives a source one that its own
// scheme was never meant for.
func strangers(name string, names []string, sources map[string]Source) (p *probe, owners map[string]string) {
	own := sources[name]
	seen := map[string]bool{}
	for _, s := range own.Settings.Secrets {
		seen[s.Value] = true
	}
	var secrets []webhook.Secret
	owners = map[string]string{}
	for _, other := range names {
		if other == name {
			continue
		}
		for _, s := range sources[other].Settings.Secrets {
			if seen[s.Value] {
				continue
			}
			seen[s.Value] = true
			label := strconv.Itoa(len(secrets))
			own.Settings.Secrets = []webhook.Secret{{Label: label, Value: s.Value}}
			if _, err := own.Provider.New(own.Settings); err == nil {
				secrets = append(secrets, own.Settings.Secrets[0])
				owners[label] = fmt.Sprintf("%q of source %s (%s)", s.Label, other, sources[other].Provider.Name)
			}
		}
	}
	if own.Settings.Secrets = secrets; len(secrets) == 0 {
		return nil, nil
	}
	p, err := newProbeAt(own)
	if err != nil {
		return nil, nil
	}
	return p, owners
}

// Diagnose says why the source refused r with the error refused. It changes nothing of r and admits
// nothing.
func (d *Diagnoser) Diagnose(source string, r *webhook.Request, refused *webhook.Error) Diagnosis {
	var found Diagnosis
	own, ok := d.probes[source]
	if !ok {
		return found
	}
	// From the likeliest cause to the least: the first that explains the refusal ends the asking.
	fits := own.askOwn(&found, r, refused)
	if !fits && !d.askOthers(&found, source, r) {
		fits = own.askStrangers(&found, r) || own.askVariants(&found, r)
	}
	own.look(&found, r, refused, fits)
	return found
}

// askOthers looks whether r was signed for another source, and reports whether it was.
func (d *Diagnoser) askOthers(found *Diagnosis, source string, r *webhook.Request) bool {
	own := d.probes[source]
	for _, name := range d.names {
		other := d.probes[name]
		if name == source {
			continue
		}
		elsewhere := *r
		elsewhere.URL = withQuery(other.URL, r.URL)
		match, ok := other.fits(&elsewhere)
		if !ok {
			continue
		}
		found.Likely = true
		found.add(OtherSource, "the signature fits secret %q of source %s (%s): the request was meant for that source, or its secret is missing here",
			match.Secret, name, other.Provider.Name)
		switch {
		case own.Mode == webhook.Live && other.Mode == webhook.Test:
			found.add(TestSecretOnLive, "source %s takes live events and %s is a test source: the test endpoint sends to the live URL", source, name)
		case own.Mode == webhook.Test && other.Mode == webhook.Live:
			found.add(LiveSecretOnTest, "source %s takes test events and %s is a live source: the live endpoint sends to the test URL", source, name)
		}
	}
	return found.Likely
}

// probe is a source's verifier with every bound of time taken off.
type probe struct {
	Provider webhook.Provider
	webhook.Settings
	verifier webhook.Verifier
	windows  map[string]webhook.Secret
	// elsewhere are probes of the same source under other spellings of its URL, for schemes that sign it.
	elsewhere []*probe
	// strangers is the source with the secrets of all others, nil where there are none; owners says by
	// label whose they are.
	strangers *probe
	owners    map[string]string
}

func newProbe(s Source) (*probe, error) {
	p, err := newProbeAt(s)
	if err != nil {
		return nil, err
	}
	for _, url := range urlVariants(s.Settings.URL) {
		other := s
		other.Settings.URL = url
		if at, err := newProbeAt(other); err == nil {
			p.elsewhere = append(p.elsewhere, at)
		}
	}
	return p, nil
}

func newProbeAt(s Source) (*probe, error) {
	p := &probe{Provider: s.Provider, Settings: s.Settings, windows: map[string]webhook.Secret{}}
	unbounded := s.Settings
	unbounded.Secrets = slices.Clone(s.Settings.Secrets)
	for i := range unbounded.Secrets {
		secret := &unbounded.Secrets[i]
		p.windows[secret.Label] = *secret
		secret.NotBefore, secret.NotAfter = time.Time{}, time.Time{}
	}
	var err error
	p.verifier, err = s.Provider.New(unbounded)
	return p, err
}

// fits reports whether a secret admits r, whatever the clock says.
func (p *probe) fits(r *webhook.Request) (webhook.Match, bool) {
	match, err := p.verifier.Verify(r)
	var refused *webhook.Error
	if errors.As(err, &refused) && refused.Skew != 0 {
		// Some schemes look at the clock first: ask again as if it had come in time.
		inTime := *r
		inTime.ReceivedAt = r.ReceivedAt.Add(-refused.Skew)
		match, err = p.verifier.Verify(&inTime)
	}
	return match, err == nil
}

// askOwn looks whether a secret of the source's own fits, but for the time, and reports whether one does.
func (p *probe) askOwn(found *Diagnosis, r *webhook.Request, refused *webhook.Error) bool {
	match, ok := p.fits(r)
	if !ok {
		return false
	}
	found.Likely = true
	secret := p.windows[match.Secret]
	switch at := r.ReceivedAt; {
	case !secret.NotAfter.IsZero() && at.After(secret.NotAfter):
		found.add(SecretNotActive, "the signature fits secret %q, which ended %s: the provider still signs with it", secret.Label, moment(secret.NotAfter))
	case !secret.NotBefore.IsZero() && at.Before(secret.NotBefore):
		found.add(SecretNotActive, "the signature fits secret %q, which begins only %s", secret.Label, moment(secret.NotBefore))
	}
	if refused.Skew != 0 {
		seconds, side := int64(refused.Skew/time.Second), "before"
		if seconds < 0 {
			seconds, side = -seconds, "after"
		}
		found.add(ClockOff, "the signature fits secret %q, and it was made %d s %s the request came: a clock is wrong, or something held the request back", match.Secret, seconds, side)
	}
	return true
}

// askStrangers looks whether another source's secret fits in this source's scheme, and reports whether one does. It
// does not make the request a likely one: what another scheme verifies with may be public.
func (p *probe) askStrangers(found *Diagnosis, r *webhook.Request) bool {
	if p.strangers == nil || len(r.Body) > maxVariants {
		return false
	}
	match, ok := p.strangers.fits(r)
	if ok {
		found.add(OtherSource, "the signature fits secret %s: the two sources' secrets were swapped, or the provider was given that one", p.owners[match.Secret])
	}
	return ok
}

// askVariants looks whether what stands between the provider and us has changed the request, and reports whether
// that explains the refusal.
func (p *probe) askVariants(found *Diagnosis, r *webhook.Request) bool {
	for _, v := range variants(r.Body) {
		changed := *r
		changed.Body = v.body
		if match, ok := p.fits(&changed); ok {
			found.Likely = true
			found.add(BodyChanged, "the signature fits secret %q if the body is taken %s: something on the way changes bodies", match.Secret, v.how)
			return true
		}
	}
	for _, elsewhere := range p.elsewhere {
		changed := *r
		changed.URL = withQuery(elsewhere.URL, r.URL)
		if match, ok := elsewhere.fits(&changed); ok {
			found.Likely = true
			found.add(URLDiffers, "the signature fits secret %q for the URL %s: the source's url is not the one that the provider was given", match.Secret, ShownURL(elsewhere.URL))
			return true
		}
	}
	return false
}

// look says what shows without any secret. Where a secret fits in the source's scheme, the provider's hints are left
// out: they guess why none does.
func (p *probe) look(found *Diagnosis, r *webhook.Request, refused *webhook.Error, fits bool) {
	if refused.Class == webhook.MissingHeader {
		found.add(NoSignatureHeader, "%s", refused.Detail)
		if names := p.otherSignatures(r, refused.Header); len(names) > 0 {
			found.add(UnknownScheme, "it carries %s instead: another scheme than %s's, or another provider's", strings.Join(names, ", "), p.Provider.Name)
		}
	}
	if hinter, ok := p.verifier.(webhook.Hinter); ok && !fits {
		for _, h := range hinter.Hints(r) {
			found.add(h.Code, "%s", h.Text)
		}
	}
	if p.Mode == "" || refused.Class.Malformed() {
		return
	}
	for _, e := range p.verifier.Events(r) {
		if e.Mode != "" && e.Mode != p.Mode {
			found.add(OtherMode, "the body, which nothing has verified, says %s, and the source is for %s: is it the endpoint of the other mode?", e.Mode, p.Mode)
			return
		}
	}
}

// otherSignatures returns the names of headers that look like signatures of another scheme, at most
// four. Where another part of the provider's own scheme is missing, its signature may be there.
func (p *probe) otherSignatures(r *webhook.Request, missing string) []string {
	if !namesSignature(missing) {
		return nil
	}
	var names []string
	own := append([]string{missing}, p.Provider.Contract.OwnHeaders...)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		isOwn := slices.ContainsFunc(own, func(o string) bool { return strings.EqualFold(o, name) })
		if !isOwn && namesSignature(name) && r.Header.Get(name) != "" && len(name) <= 64 && len(names) < 4 {
			names = append(names, name)
		}
	}
	return names
}

// namesSignature reports whether a header of that name seems to carry a signature or a token.
func namesSignature(name string) bool {
	lower := strings.ToLower(name)
	if strings.HasSuffix(lower, "-timestamp") {
		return false
	}
	return strings.Contains(lower, "signature") || strings.Contains(lower, "hmac") ||
		strings.HasSuffix(lower, "-token") || strings.HasSuffix(lower, "-sig")
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
