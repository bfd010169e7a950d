package process

import (
	"log/slog"

	sdklog "go.temporal.io/sdk/log"
)

// sdkLogger writes what Temporal's SDK says. At ERROR a person has to act, and nobody has to where an activity has
// failed: it is tried again, or its run parks and says so itself.
type sdkLogger struct{ sdklog.Logger }

func newSDKLogger(log *slog.Logger) sdkLogger {
	return sdkLogger{sdklog.NewStructuredLogger(log.With("component", "temporal"))}
}

func (l sdkLogger) Error(msg string, keyvals ...any) {
	if msg == "Activity error." {
		l.Warn(msg, keyvals...)
		return
	}
	l.Logger.Error(msg, keyvals...)
}
