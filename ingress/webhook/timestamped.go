package webhook

import (
	"crypto/sha256"
	"strings"
	"time"
)

// TimestampedScheme is the scheme that Stripe made common: one header of pairs ("t=<seconds>,v1=<hex>")
// holds a time and any number of HMAC-SHA256 signatures, in hex, of time, joint and body.
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
	h, err := t.read(value)
	if err != nil {
		return Match{}, err
	}
	match, err := MatchHMAC(keys, r.ReceivedAt, sha256.New, h.signatures, []byte(h.stamp), []byte(t.Joint), r.Body)
	if err != nil {
		return Match{}, err
	}
	if err := r.CheckClock(h.at, tolerance); err != nil {
		return Match{}, err
	}
	return match, nil
}

// timestamped is a signature header as it was read.
type timestamped struct {
	// stamp holds the bytes of the time as they stand in the header: those are signed.
	stamp string
	// at is the time that stamp names.
	at time.Time
	// signatures holds the decoded signatures of the wanted scheme, the first [MaxSignatures];
	// those that are not hex are left out. It may be empty.
	signatures [][]byte
}

// read reads the header's value. Pairs with other keys are ignored: Stripe sends a fake v0 with test
// events, and a new scheme must not break the old one. Every signature counts, not the first or the
// last, for during a rotation the provider sends one for each secret. Two different times are
// malformed: nobody can say which one is signed.
func (t TimestampedScheme) read(value string) (timestamped, error) {
	var h timestamped
	stamped := false
	for pair := range strings.SplitSeq(value, t.Separator) {
		key, v, ok := strings.Cut(pair, "=")
		if !ok {
			return timestamped{}, Errorf(MalformedHeader, "header %s holds a part without =", t.Header)
		}
		switch key {
		case t.Time:
			if stamped && v != h.stamp {
				return timestamped{}, Errorf(MalformedHeader, "header %s holds two different %s=", t.Header, t.Time)
			}
			h.stamp, stamped = v, true
		case t.Signature:
			if sig := DecodeHex(v); sig != nil && len(h.signatures) < MaxSignatures {
				h.signatures = append(h.signatures, sig)
			}
		}
	}
	if !stamped {
		return timestamped{}, Errorf(MalformedHeader, "header %s holds no %s=", t.Header, t.Time)
	}
	at, err := ParseUnix(t.Header+" "+t.Time+"=", h.stamp)
	if err != nil {
		return timestamped{}, err
	}
	h.at = at
	return h, nil
}
