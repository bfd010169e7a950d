package webhook

import (
	"log/slog"
	"time"
)

// Secret is one key of a source. During a rotation, a source has several active secrets.
type Secret struct {
	Label string
	// Value is the secret as the provider displays it (text, hex, base64, PEM).
	Value string
	// The secret is active from NotBefore to NotAfter. Zero means no bound.
	NotBefore, NotAfter time.Time
}

// Active reports whether s may admit a request received at t.
func (s Secret) Active(t time.Time) bool {
	return (s.NotBefore.IsZero() || !t.Before(s.NotBefore)) && (s.NotAfter.IsZero() || !t.After(s.NotAfter))
}

// String hides the value, so that formatting a secret does not log it.
func (s Secret) String() string { return "secret " + s.Label }

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
