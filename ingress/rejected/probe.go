package rejected

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// probe is a source's verifier with every bound of time taken off.
type probe struct {
	Provider webhook.Provider
	webhook.Settings
	verifier webhook.Verifier
	// windows holds the source's secrets by label, with the bounds of time that the verifier does without.
	windows map[string]webhook.Secret
	// elsewhere are probes of the same source under other spellings of its URL, for schemes that sign it.
	elsewhere []*probe
	// strangers are probes of the source with the secrets of others.
	strangers []*probe
}

// newProbe returns a probe of the source, with others of it under the spellings of its URL. It knows no strangers yet.
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

// newProbeAt returns a probe of the source under the URL that s has, and no other.
func newProbeAt(s Source) (*probe, error) {
	p := &probe{Provider: s.Provider, Settings: s.Settings, windows: map[string]webhook.Secret{}}
	unbounded := s.Settings
	unbounded.Offline = true
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

// askOwn asks whether a secret of the source's own fits at any time, and reports whether one does.
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
		found.add(SecretNotActive, "the signature fits secret %q, which begins only %s", secret.Label,
			moment(secret.NotBefore))
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

// askStrangers asks whether another source's secret fits in this source's scheme, and reports whether one does. It
// does not make the request a likely one: what another scheme verifies with may be public.
func (p *probe) askStrangers(found *Diagnosis, r *webhook.Request) bool {
	for _, stranger := range p.strangers {
		if match, ok := stranger.fits(r); ok {
			found.add(OtherSource, "the signature fits secret %s: the two sources' secrets were swapped, or the provider was given that one", match.Secret)
			return true
		}
	}
	return false
}

// askVariants asks whether what stands between the provider and us has changed the request, and reports whether
// that explains the rejection.
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
		changed.URL = webhook.CalledURL(elsewhere.URL, r.Query())
		if match, ok := elsewhere.fits(&changed); ok {
			found.Likely = true
			found.add(URLDiffers, "the signature fits secret %q for the URL %s: the source's url is not the one that the provider was given", match.Secret, ShownURL(elsewhere.URL))
			return true
		}
	}
	return false
}

// inspect adds the findings that need no secret. It leaves out the provider's hints if a secret fits in the source's
// scheme: the hints guess why no secret does.
func (p *probe) inspect(found *Diagnosis, r *webhook.Request, refused *webhook.Error, fits bool) {
	if refused.Class == webhook.MissingHeader {
		found.add(NoSignatureHeader, "%s", refused.Detail)
		if names := p.otherSignatures(r, refused.Header); len(names) > 0 {
			found.add(UnknownScheme, "it carries %s instead: another scheme than %s's, or another provider's",
				strings.Join(names, ", "), p.Provider.Name)
		}
	}
	if hinter, ok := p.verifier.(webhook.Hinter); ok && !fits {
		for _, h := range hinter.Hints(r) {
			found.add(h.Code, "%s", h.Text)
		}
	}
	// Only where events say their mode: a megabyte of a batch, from anybody, names events by the hundred thousand.
	if p.Mode == "" || p.Provider.Contract.Mode == "" || refused.Class.Malformed() {
		return
	}
	for _, e := range p.verifier.Events(r) {
		if e.Mode != "" && e.Mode != p.Mode {
			found.add(OtherMode, "the body, which nothing has verified, says %s, and the source is for %s: is it the endpoint of the other mode?", e.Mode, p.Mode)
			return
		}
	}
}

// otherSignatures returns the names of headers that look like signatures of another scheme, at most four. It returns
// nil if missing is not a signature header: the provider's own signature may be in the request then.
func (p *probe) otherSignatures(r *webhook.Request, missing string) []string {
	if !namesSignature(missing) {
		return nil
	}
	var names []string
	h := webhook.HeadersOf(p.Provider, p.verifier)
	own := slices.Concat([]string{missing}, h.Plain, h.Signatures, h.Tokens)
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
