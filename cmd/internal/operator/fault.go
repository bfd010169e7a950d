package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// InvalidError says that a call cannot be understood as it stands. Nothing was changed.
type InvalidError struct{ Says string }

func (e *InvalidError) Error() string { return e.Says }

func invalid(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// unknown says that id names nothing.
func unknown(id, format string, args ...any) error {
	return &UnknownError{ID: id, Says: fmt.Sprintf(format, args...)}
}

// ambiguous says that id names several things.
func ambiguous(id, format string, args ...any) error {
	return &AmbiguousError{ID: id, Says: fmt.Sprintf(format, args...)}
}

// LaterError says that a decision is not answered yet, and may be recorded: the same request asks again.
type LaterError struct{ Says string }

func (e *LaterError) Error() string { return e.Says }

func later(format string, args ...any) error { return &LaterError{fmt.Sprintf(format, args...)} }

// AwayError means that Postgres does not answer, and that nothing is known that could stand for its answer.
type AwayError struct{ Err error }

func (e *AwayError) Error() string { return "the database does not answer: " + e.Err.Error() }
func (e *AwayError) Unwrap() error { return e.Err }

// Away reports whether an error means that Postgres does not answer, or not in time. A decision may have been recorded
// or not: the same request finds out.
func Away(err error) bool {
	if _, is := errors.AsType[*AwayError](err); is {
		return true
	}
	if _, is := errors.AsType[*pgconn.ConnectError](err); is {
		return true
	}
	if pg, is := errors.AsType[*pgconn.PgError](err); is {
		// It is being stopped or started, is read-only, or has no connection left.
		return pg.Code[:2] == "57" || pg.Code == "25006" || pg.Code[:2] == "53"
	}
	_, is := errors.AsType[net.Error](err)
	return is || pgconn.SafeToRetry(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded)
}
