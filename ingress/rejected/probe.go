package rejected

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// probe verifies requests as the verifier of a source does, but also accepts expired and future secrets.
type probe struct {
	Provider webhook.Provider
	webhook.Settings
	verifier webhook.Verifier
	// windows maps the label of each secret to the secret with its time bounds.
	windows map[string]webhook.Secret
	// elsewhere are probes of the same source with other spellings of its URL. It is empty unless the scheme signs the
	// URL.
	elsewhere []*probe
	// readings are probes of the same source, each with one secret decoded in another encoding.
	readings []reading
	// strangers are probes of the source with the secrets of other sources.
	strangers []*probe
}

// newProbe returns a probe of the source. It sets elsewhere; the caller sets strangers.
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
	p.readings = readingsOf(s)
	return p, nil
}

// newProbeAt returns a probe of the source without elsewhere.
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

// fits returns the match if a secret admits r, regardless of the clock.
func (p *probe) fits(r *webhook.Request) (webhook.Match, bool) {
	match, err := p.verifier.Verify(r)
	var refused *webhook.Error
	if errors.As(err, &refused) && refused.Skew != 0 {
		// Some schemes check the clock first, so verify again with a receive time within the tolerance.
		inTime := *r
		inTime.ReceivedAt = r.ReceivedAt.Add(-refused.Skew)
		match, err = p.verifier.Verify(&inTime)
	}
	return match, err == nil
}

// askOwn reports whether a secret of the source fits, regardless of the clock, and adds the findings.
func (p *probe) askOwn(found *Diagnosis, r *webhook.Request, refused *webhook.Error) bool {
	match, ok := p.fits(r)
	if !ok {
		return false
	}
	found.Likely = true
	secret := p.windows[match.Secret]
	switch at := r.ReceivedAt; {
	case !secret.NotAfter.IsZero() && at.After(secret.NotAfter):
		found.add(SecretNotActive, "the signature fits secret %q, which expired %s: the provider still signs with this secret", secret.Label, moment(secret.NotAfter))
	case !secret.NotBefore.IsZero() && at.Before(secret.NotBefore):
		found.add(SecretNotActive, "the signature fits secret %q, which is active only from %s", secret.Label,
			moment(secret.NotBefore))
	}
	if refused.Skew != 0 {
		seconds, side := int64(refused.Skew/time.Second), "before"
		if seconds < 0 {
			seconds, side = -seconds, "after"
		}
		found.add(ClockOff, "the signature fits secret %q, and the request was signed %d s %s it arrived: a clock is wrong, or a proxy delayed the request", match.Secret, seconds, side)
	}
	return true
}

// askStrangers reports whether a secret of another source fits in the scheme of this source, and adds a finding. It
// does not set Likely: the other secret may be a public key, with which anybody could have signed.
func (p *probe) askStrangers(found *Diagnosis, r *webhook.Request) bool {
	for _, stranger := range p.strangers {
		if match, ok := stranger.fits(r); ok {
			found.add(OtherSource, "the signature fits secret %s: the secrets of the two sources were swapped, or the provider signs with the wrong secret", match.Secret)
			return true
		}
	}
	return false
}

// askVariants reports whether the signature fits a variant of the request that a proxy may have changed, and adds a
// finding.
func (p *probe) askVariants(found *Diagnosis, r *webhook.Request) bool {
	for _, v := range variants(r.Body) {
		changed := *r
		changed.Body = v.body
		if match, ok := p.fits(&changed); ok {
			found.Likely = true
			found.add(BodyChanged, "the signature fits secret %q if the body is read %s: a proxy between the provider and pawl changes bodies", match.Secret, v.how)
			return true
		}
	}
	for _, elsewhere := range p.elsewhere {
		changed := *r
		changed.URL = webhook.CalledURL(elsewhere.URL, r.Query())
		if match, ok := elsewhere.fits(&changed); ok {
			found.Likely = true
			found.add(URLDiffers, "the signature fits secret %q for the URL %s: the provider has this URL instead of the url of the source", match.Secret, ShownURL(elsewhere.URL))
			return true
		}
	}
	return false
}

// inspect adds the findings that need no secret. If a secret fits, it omits the provider's hints, which explain why no
// secret fits.
func (p *probe) inspect(found *Diagnosis, r *webhook.Request, refused *webhook.Error, fits bool) {
	if refused.Class == webhook.MissingHeader {
		found.add(NoSignatureHeader, "%s", refused.Detail)
		if names := p.otherSignatures(r, refused.Header); len(names) > 0 {
			found.add(UnknownScheme, "it contains %s instead: the sender uses another scheme than %s, or is another provider",
				strings.Join(names, ", "), p.Provider.Name)
		}
	}
	if hinter, ok := p.verifier.(webhook.Hinter); ok && !fits {
		for _, h := range hinter.Hints(r) {
			found.add(h.Code, "%s", h.Text)
		}
	}
	// Parse the events only if they contain a mode: an unauthenticated batch of a megabyte can contain a hundred
	// thousand events.
	if p.Mode == "" || p.Provider.Contract.Mode == "" || refused.Class.Malformed() {
		return
	}
	for _, e := range p.verifier.Events(r) {
		if e.Mode != "" && e.Mode != p.Mode {
			found.add(OtherMode, "the unverified body contains mode %s, but the source is for %s: check whether the provider's endpoint has the other mode", e.Mode, p.Mode)
			return
		}
	}
}

// otherSignatures returns the names of up to four headers that look like signatures of another scheme. It returns nil
// if the missing header is not a signature header, because r may then contain the provider's signature.
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

// namesSignature reports whether the name of a header suggests a signature or a token.
func namesSignature(name string) bool {
	lower := strings.ToLower(name)
	if strings.HasSuffix(lower, "-timestamp") {
		return false
	}
	return strings.Contains(lower, "signature") || strings.Contains(lower, "hmac") ||
		strings.HasSuffix(lower, "-token") || strings.HasSuffix(lower, "-sig")
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
