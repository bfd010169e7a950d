package rejected

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// reading is a probe of a source with one secret, decoded in another encoding.
type reading struct {
	*probe
	secret   string // its label
	how      string
	encoding string // the value of the option key_encoding
	bare     bool   // the prefix whsec_ is removed
}

const secretPrefix = "whsec_"

// readingsOf returns probes with the secrets of a source in other encodings: the sender may sign with the text of a
// secret that the source decodes, or the reverse. For each key, it tries every text that the provider may decode to the
// key.
func readingsOf(s Source) (all []reading) {
	for _, secret := range s.Settings.Secrets {
		value, prefixed := strings.CutPrefix(secret.Value, secretPrefix)
		candidates := []struct {
			reading
			key []byte
		}{
			{reading{how: "its whole text", encoding: "text"}, []byte(secret.Value)},
		}
		if prefixed {
			candidates = append(candidates, candidates[0])
			candidates[1].reading = reading{how: "the text behind whsec_", encoding: "text", bare: true}
			candidates[1].key = []byte(value)
		}
		if key, err := base64.StdEncoding.DecodeString(value); err == nil {
			c := candidates[0]
			c.reading, c.key = reading{how: "decoded as base64", encoding: "base64", bare: prefixed}, key
			candidates = append(candidates, c)
		}
		if key, err := hex.DecodeString(value); err == nil {
			c := candidates[0]
			c.reading, c.key = reading{how: "decoded as hexadecimal", encoding: "hex", bare: prefixed}, key
			candidates = append(candidates, c)
		}
		for _, c := range candidates {
			for _, form := range forms(c.key) {
				if form == secret.Value {
					continue
				}
				other := s
				other.Settings.Secrets = []webhook.Secret{{Label: secret.Label, Value: form}}
				if p, err := newProbeAt(other); err == nil {
					c.probe, c.secret = p, secret.Label
					all = append(all, c.reading)
				}
			}
		}
	}
	return all
}

// forms returns the texts that a provider may decode to the key.
func forms(key []byte) []string {
	encoded := base64.StdEncoding.EncodeToString(key)
	return []string{string(key), encoded, secretPrefix + encoded, hex.EncodeToString(key)}
}

// askReadings reports whether a secret of the source fits in another encoding, and adds a finding.
func (p *probe) askReadings(found *Diagnosis, r *webhook.Request) bool {
	for _, other := range p.readings {
		if _, ok := other.fits(r); !ok {
			continue
		}
		found.Likely = true
		found.add(KeyEncoding, "the signature fits secret %q if the key is %s: %s", other.secret, other.how,
			other.fix(p.Provider))
		return true
	}
	return false
}

// fix returns the setting that makes the source decode its secret like r.
func (r reading) fix(p webhook.Provider) string {
	if _, has := p.Contract.Options[webhook.KeyEncoding]; !has {
		return fmt.Sprintf("secrets of %s do not have this encoding; if another sender signs like %s, use provider hmac with options.%s: %s",
			p.Name, p.Name, webhook.KeyEncoding, r.encoding)
	}
	if r.bare && (r.encoding == "text" || p.Name == "hmac") {
		return fmt.Sprintf("store it without whsec_, and set options.%s: %s", webhook.KeyEncoding, r.encoding)
	}
	return fmt.Sprintf("set options.%s: %s", webhook.KeyEncoding, r.encoding)
}
