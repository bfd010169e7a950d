package process

import (
	"log/slog"

	sdklog "go.temporal.io/sdk/log"
)

// sdkLogger writes the log lines of Temporal's SDK. It logs failed activities below the level ERROR, because ERROR
// means that a person must act. A failed activity is retried, or its run is parked and reported.
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
