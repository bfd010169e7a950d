package webhook

import (
	"log/slog"
	"time"
)

// Secret is one key of a source. Several are active during a rotation.
type Secret struct {
	Label string
	// Value is the secret in the form that the provider shows it (text, hex, base64, PEM).
	Value string
	// NotBefore and NotAfter bound its use; zero means unbounded.
	NotBefore, NotAfter time.Time
}

// Active reports whether s may admit a request received at t.
func (s Secret) Active(t time.Time) bool {
	return (s.NotBefore.IsZero() || !t.Before(s.NotBefore)) && (s.NotAfter.IsZero() || !t.After(s.NotAfter))
}

// String hides the value, so that a secret that reaches a format verb does not reach a log.
func (s Secret) String() string { return "secret " + s.Label }

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
