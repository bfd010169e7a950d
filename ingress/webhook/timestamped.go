package webhook

import (
	"crypto/sha256"
	"strings"
	"time"
)

// Timestamped is a signature header of the form "t=<seconds>,v1=<hex>[,v1=<hex>]", as Stripe
// sends it and others copy it.
type Timestamped struct {
	// Stamp holds the bytes of the time as they stand in the header: those are signed.
	Stamp string
	// At is the time that Stamp names.
	At time.Time
	// Signatures holds the decoded signatures of the wanted scheme, the first [MaxSignatures];
	// those that are not hex are left out. It may be empty.
	Signatures [][]byte
}

// ParseTimestamped reads value, the header called name: comma-separated pairs of which stampKey
// holds the time and signatureKey a signature. Pairs with other keys are ignored: Stripe sends a
// fake v0 with test events, and a new scheme must not break the old one. Every signature counts,
// not the first or the last, for during a rotation the provider sends one a secret. Two different
// times are malformed: nobody can say which one is signed.
func ParseTimestamped(name, value, separator, stampKey, signatureKey string) (Timestamped, error) {
	var h Timestamped
	stamped := false
	for pair := range strings.SplitSeq(value, separator) {
		key, v, ok := strings.Cut(pair, "=")
		if !ok {
			return Timestamped{}, Errorf(MalformedHeader, "header %s holds a part without =", name)
		}
		switch key {
		case stampKey:
			if stamped && v != h.Stamp {
				return Timestamped{}, Errorf(MalformedHeader, "header %s holds two different %s=", name, stampKey)
			}
			h.Stamp, stamped = v, true
		case signatureKey:
			if sig := DecodeHex(v); sig != nil && len(h.Signatures) < MaxSignatures {
				h.Signatures = append(h.Signatures, sig)
			}
		}
	}
	if !stamped {
		return Timestamped{}, Errorf(MalformedHeader, "header %s holds no %s=", name, stampKey)
	}
	at, err := ParseUnix(name+" "+stampKey+"=", h.Stamp)
	if err != nil {
		return Timestamped{}, err
	}
	h.At = at
	return h, nil
}

// TimestampedScheme is the scheme that Stripe made common: one header holds a time and any number of
// HMAC-SHA256 signatures, in hex, of time, joint and body.
type TimestampedScheme struct {
	Header    string
	Separator string // between the pairs of the header
	Time      string // the key of the time
	Signature string // the key of a signature
	Joint     string // between time and body
}

// Verify checks every signature against every active key, and then the clock: before the signature is
// known to be good, the time is what anybody wrote.
func (t TimestampedScheme) Verify(r *Request, keys *Keyring[[]byte], tolerance time.Duration) (Match, error) {
	value, err := r.HeaderOnce(t.Header)
	if err != nil {
		return Match{}, err
	}
	h, err := ParseTimestamped(t.Header, value, t.Separator, t.Time, t.Signature)
	if err != nil {
		return Match{}, err
	}
	match, err := MatchHMAC(keys, r.ReceivedAt, sha256.New, h.Signatures, []byte(h.Stamp), []byte(t.Joint), r.Body)
	if err != nil {
		return Match{}, err
	}
	if err := r.CheckClock(h.At, tolerance); err != nil {
		return Match{}, err
	}
	return match, nil
}
