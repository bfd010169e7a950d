package operator

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

// Fault says why a call is not answered. Nothing was changed, except for one that is to be answered [Later].
type Fault struct {
	Kind FaultKind
	Says string
	// ID names several Receipts of a fault that is [Ambiguous]; with Object set it is an object of the provider's that
	// they are about.
	ID       string
	Receipts []timeline.Receipt
	Object   bool
}

// FaultKind says what a caller can do about a fault.
type FaultKind string

// The kinds of faults. A decision that is to be answered later may be recorded: the same request asks again. A
// request is reused if it has the ID of another request with other arguments.
const (
	Invalid   FaultKind = "invalid"
	Unknown   FaultKind = "unknown"
	Ambiguous FaultKind = "ambiguous"
	Forbidden FaultKind = "forbidden"
	Later     FaultKind = "later"
	Reused    FaultKind = "reused"
)

func (f *Fault) Error() string { return f.Says }

// IsFault reports whether an error is a fault of a kind.
func IsFault(err error, kind FaultKind) bool {
	f, is := errors.AsType[*Fault](err)
	return is && f.Kind == kind
}

func fault(kind FaultKind, format string, args ...any) error {
	return &Fault{Kind: kind, Says: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error { return fault(Invalid, format, args...) }

func unknown(format string, args ...any) error { return fault(Unknown, format, args...) }

// Forbids returns the fault of a person who has none of the rights that something needs. It names the roles that have
// one of them.
func Forbids(what string, needs ...role.Right) error {
	var may, rights []string
	for _, r := range role.All() {
		if slices.ContainsFunc(needs, r.May) {
			may = append(may, string(r))
		}
	}
	for _, right := range needs {
		rights = append(rights, strconv.Quote(string(right)))
	}
	return fault(Forbidden, "%s needs the right %s, and none of your roles has it: a person with the role %s may",
		what, strings.Join(rights, " or "), strings.Join(may, " or "))
}

// several says that an ID names several receipts: providers, accounts and modes number their events apart, and an
// object may have several events.
func several(id string, receipts []timeline.Receipt, object bool) error {
	list := make([]string, len(receipts))
	for i, r := range receipts {
		list[i] = fmt.Sprintf("%s (%s, %s)", r.EventID, r.Type, r.Status)
		if !object {
			list[i] = fmt.Sprintf("%s (%s, %s, %s)", r.ID, strings.TrimSpace(r.Provider+" "+r.Account), r.Mode, r.Type)
		}
	}
	says := fmt.Sprintf("%q names %d events; use the receipt ID of one: ", id, len(list))
	if object {
		says = fmt.Sprintf("%d events are about %s: name one: ", len(list), id)
	}
	return &Fault{Ambiguous, says + strings.Join(list, ", "), id, receipts, object}
}

const bothModes = "is there in both modes: add --mode live or --mode test"

// only returns the one that id names among those that were found. none says so of no one, and severalSay of many.
func only[T any](id string, found []T, err error, none, many string) (one T, _ error) {
	switch {
	case err != nil:
		return one, err
	case len(found) == 0:
		return one, unknown("%s", none)
	case len(found) > 1:
		return one, fault(Ambiguous, "%q %s", id, many)
	}
	return found[0], nil
}

// ErrAway means that Postgres does not answer, and that nothing is known that could stand for its answer.
var ErrAway = errors.New("the database does not answer")

// Away reports whether an error means that Postgres does not answer, or not in time. A decision may have been recorded
// or not: the same request finds out.
func Away(err error) bool {
	if _, is := errors.AsType[*pgconn.ConnectError](err); is || errors.Is(err, ErrAway) {
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
