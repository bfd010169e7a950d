package decide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Fault is an error that the caller can act on. Nothing was changed, unless the kind is [Later].
type Fault struct {
	Kind    FaultKind
	Message string
	// ID matches the Receipts if the fault is [Ambiguous]. Object is set if ID is an object of the provider that the
	// events are about.
	ID       string
	Receipts []timeline.Receipt
	Object   bool
}

// FaultKind determines how a caller can react to a fault.
type FaultKind string

// The kinds of faults. With [Later] the decision may have been recorded; repeat the request. With [Reused] the request
// ID belongs to another decision.
const (
	Invalid   FaultKind = "invalid"
	Unknown   FaultKind = "unknown"
	Ambiguous FaultKind = "ambiguous"
	Forbidden FaultKind = "forbidden"
	Later     FaultKind = "later"
	Reused    FaultKind = "reused"
)

func (f *Fault) Error() string { return f.Message }

// IsFault reports whether err is a fault of the kind.
func IsFault(err error, kind FaultKind) bool {
	f, is := errors.AsType[*Fault](err)
	return is && f.Kind == kind
}

// Faultf returns a [Fault] of the kind with a formatted message.
func Faultf(kind FaultKind, format string, args ...any) error {
	return &Fault{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Invalidf returns a [Fault] of the kind Invalid.
func Invalidf(format string, args ...any) error { return Faultf(Invalid, format, args...) }

// Unknownf returns a [Fault] of the kind Unknown.
func Unknownf(format string, args ...any) error { return Faultf(Unknown, format, args...) }

// Forbids returns the fault for a person without any of the required rights. It names the roles that have one of
// these rights.
func Forbids(what string, needs ...role.Right) error {
	var rights []string
	for _, right := range needs {
		rights = append(rights, strconv.Quote(string(right)))
	}
	return Faultf(Forbidden, "%s needs the right %s, and none of your roles has it: ask a person with the role %s",
		what, strings.Join(rights, " or "), rolesWith(needs))
}

// NeedsRole returns the reason why a person without these rights may not use a button.
func NeedsRole(needs ...role.Right) string { return "Needs the role " + rolesWith(needs) }

// rolesWith returns the names of the roles with one of the rights: "operator or admin".
func rolesWith(needs []role.Right) string {
	var may []string
	for _, r := range role.All() {
		if slices.ContainsFunc(needs, r.May) {
			may = append(may, string(r))
		}
	}
	return strings.Join(may, " or ")
}

// BothModes is the message for an ID that exists in both modes.
const BothModes = "exists in both modes: add --mode live or --mode test"

// Only returns the only element of found. It returns the message none if found is empty, and the message many if
// there are several elements.
func Only[T any](id string, found []T, err error, none, many string) (one T, _ error) {
	switch {
	case err != nil:
		return one, err
	case len(found) == 0:
		return one, Unknownf("%s", none)
	case len(found) > 1:
		return one, Faultf(Ambiguous, "%q %s", id, many)
	}
	return found[0], nil
}

// ErrAway means that Postgres is unavailable and that no cached value is fresh enough.
var ErrAway = errors.New("the database does not answer")

// Away reports whether an error means that Postgres is unavailable or too slow. A decision may have been recorded;
// repeat the request to find out.
func Away(err error) bool {
	if _, is := errors.AsType[*pgconn.ConnectError](err); is || errors.Is(err, ErrAway) {
		return true
	}
	if pg, is := errors.AsType[*pgconn.PgError](err); is {
		// The server is starting, stopping, read-only, or has no free connection.
		return pg.Code[:2] == "57" || pg.Code == "25006" || pg.Code[:2] == "53"
	}
	_, is := errors.AsType[net.Error](err)
	return is || pgconn.SafeToRetry(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded)
}
