package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// A probe is a delivery that an operator sends, to see whether the provider's would arrive: it is signed as they are,
// goes their whole way, and nothing is run for it. It holds a mark somewhere in its body that only who has the source's
// secret can make, for this source and this event. So nobody else can make an event pass for a probe, and vanish.

// Probe is a probe's mark: a name that tells it from other probes, and the proof that it is one.
type Probe struct{ ID, proof string }

const (
	probePrefix = "pawl-probe."
	proofLen    = 2 * sha256.Size
)

// ProbeType is the type of the event that a probe carries, where its provider leaves that to us: no flow is for it, so
// that a pawl which does not take it for a probe ignores it.
const ProbeType = "pawl.probe"

// NewProbe returns the mark of a new probe. It proves nothing until [Probe.For] has made it of an event.
func NewProbe() Probe { return Probe{ID: rand.Text(), proof: strings.Repeat("0", proofLen)} }

// For returns the probe of a source whose delivery carries these events, as its verifier reads them, proven with one of
// its secrets. Its text is as long as before, so that it can take the place of the unproven one.
func (p Probe) For(source, secret string, events []Event) Probe {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("pawl probe\x00" + source + "\x00" + p.ID))
	for _, e := range events {
		if e.IDOrigin != FromHash { // a hash is of the mark, too
			mac.Write([]byte("\x00" + e.ID))
		}
	}
	p.proof = hex.EncodeToString(mac.Sum(nil))
	return p
}

// String is the mark as it stands in a body. No form and no JSON writes it in another way.
func (p Probe) String() string { return probePrefix + p.ID + "." + p.proof }

// ReadProbe returns the mark of the first probe that body holds, proven or not.
func ReadProbe(body []byte) (Probe, bool) {
	_, rest, found := bytes.Cut(body, []byte(probePrefix))
	if !found {
		return Probe{}, false
	}
	id, rest, found := bytes.Cut(rest[:min(len(rest), 64+1+proofLen)], []byte("."))
	if !found || len(id) == 0 || len(rest) < proofLen ||
		slices.ContainsFunc(id, func(c byte) bool { return (c < 'A' || c > 'Z') && (c < '0' || c > '9') }) {
		return Probe{}, false
	}
	return Probe{ID: string(id), proof: string(rest[:proofLen])}, true
}

// Proven reports whether the probe is one of this source, made with this secret for these events. It compares in
// constant time.
func (p Probe) Proven(source, secret string, events []Event) bool {
	return secret != "" && hmac.Equal([]byte(p.proof), []byte(p.For(source, secret, events).proof))
}
