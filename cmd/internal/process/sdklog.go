package process

import (
	"log/slog"

	sdklog "go.temporal.io/sdk/log"
)

// sdkLogger writes the log of Temporal's SDK. It lowers the level of failed activities: a person must act on an ERROR,
// but a failed activity is retried, or its run is parked and reported.
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
