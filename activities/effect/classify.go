package effect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
)

// These are the types of the errors that activities return to Temporal. Histories contain them.
const (
	// TypeTransient is a failure of the outside system. It is retried.
	TypeTransient = "Transient"
	// TypeNotYet means that the effect cannot start yet, e.g. because another run has claimed it.
	TypeNotYet = "NotYet"
	// TypeInfrastructure is a failure of pawl's own database. It is retried without limit.
	TypeInfrastructure = "Infrastructure"
)

// TypeForeign is the type of the error that [Foreign] returns. Histories contain it.
const TypeForeign = "NotOfItsReceipt"

// Foreign returns the error of an activity if its input contradicts the receipt of its event. pawl never starts such a
// run, so another client has written to Temporal. The error is not retried, and the run fails.
func Foreign(of event.Ref, cause error) error {
	return temporal.NewNonRetryableApplicationError("rejected: the input contradicts receipt "+of.ReceiptID,
		TypeForeign, cause)
}

// Failure is a classified error of a request to an outside system.
type Failure struct {
	Class ledger.Class
	// RetryAfter is the delay that the sink requested, or zero.
	RetryAfter time.Duration
	// Unanswered is set if the request was sent and no response reports its outcome.
	Unanswered bool
	// Health is the state of the sink.
	Health Health
	// Err describes the failure in pawl's own words. Workflow histories contain it.
	Err error
	// Detail is text from the sink, or an error that may quote it. It is stored only in pawl's database, because it can
	// contain personal data.
	Detail string
}

// detailSeparator separates pawl's own text from the sink's text. The text of pawl itself never contains it.
const detailSeparator = " – "

func (f *Failure) Error() string {
	if f.Detail == "" {
		return f.Err.Error()
	}
	return f.Err.Error() + detailSeparator + f.Detail
}

func (f *Failure) Unwrap() error { return f.Err }

// withoutDetail removes the sink's text from the description of a failure.
func withoutDetail(description string) string {
	ours, _, _ := strings.Cut(description, detailSeparator)
	return ours
}

// Refuse returns a failure which means that the sink cannot fulfil the request for this customer. A flow may then
// compensate the effects that depend on the refused effect.
func Refuse(format string, args ...any) *Failure {
	return &Failure{Class: ledger.Permanent, Err: fmt.Errorf(format, args...)}
}

// Fault returns a failure of pawl or of its deployment. It is not retried automatically and compensates nothing.
func Fault(format string, args ...any) *Failure {
	return &Failure{Class: ledger.Fault, Err: fmt.Errorf(format, args...)}
}

// Broken returns a transient failure for a connection that ended with err. who is the name of the server.
func Broken(who string, unanswered bool, err error) *Failure {
	how := "the connection broke"
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	switch timeout, ok := errors.AsType[net.Error](err); {
	case errors.Is(err, context.DeadlineExceeded), ok && timeout.Timeout():
		how = "no answer in time"
	case errors.As(err, &op) && op.Op == "dial", errors.As(err, &certificate):
		how = "cannot be reached"
	}
	return &Failure{Class: ledger.Transient, Unanswered: unanswered, Health: Down, Err: fmt.Errorf("%s: %s", who, how),
		Detail: err.Error()}
}

// Doubt returns a failure with an unknown outcome. The effect may have happened.
func Doubt(format string, args ...any) *Failure {
	return &Failure{Class: ledger.Ambiguous, Err: fmt.Errorf(format, args...)}
}

// NotWanted is returned by fn if the effect is obsolete, e.g. because newer state superseded it. The ledger records
// it as skipped, with the reason.
type NotWanted struct{ Reason string }

func (n *NotWanted) Error() string { return n.Reason }

// Unfinished is returned by fn if the effect has begun outside of pawl and has no outcome yet. The attempt counts as no
// failure, and Temporal calls the activity again after Wait. The policy of the effect must have Marks.
type Unfinished struct {
	Reason string
	Wait   time.Duration
}

func (u *Unfinished) Error() string { return u.Reason }

// infrastructure marks an error of pawl's own database. It does not count as an attempt.
type infrastructure struct{ err error }

func (i *infrastructure) Error() string { return i.err.Error() }
func (i *infrastructure) Unwrap() error { return i.err }

// Infrastructure marks err as a failure of pawl's own infrastructure. The effect is retried, and the attempt is not
// counted. Use Infrastructure for errors of pawl's database inside fn. It returns nil for a nil error.
func Infrastructure(err error) error {
	if err == nil {
		return nil
	}
	return &infrastructure{err}
}

// Classify returns the class of an attempt's error and the delay that the sink requested. An error is transient
// unless it is known to be a refusal, a fault or ambiguous.
func Classify(err error) (class ledger.Class, retryAfter time.Duration) {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure.Class, failure.RetryAfter
	}
	return ledger.Transient, 0
}

// FromStatus returns the failure for an HTTP response, or nil for 2xx. detail is text from the body. 408, 409, 425, 429
// and 5xx are transient. Every other status is a fault: the same request would get the same response, but a proxy may
// have sent it. Only the caller knows whether the sink uses such a status for a refusal.
//
// 401 and 403 mean that the sink rejects pawl's token, and therefore every request. Both are transient: the circuit
// breaker opens, and the effects wait until an operator corrects the token.
//
// After 425 (RFC 8470 §5.2), 429 (RFC 6585 §4) and 503 (RFC 9110 §15.6.4) the effect has not happened. After any other
// transient status it may have happened, so the failure is unanswered. A sink can fail after its commit (500), and a
// gateway can lose the response of the sink (502, 504, 408). 409 can mean that an earlier request with the same key is
// in progress.
func FromStatus(resp *http.Response, detail string, now time.Time) *Failure {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	failure := Fault("%s answered %d", resp.Request.URL.Host, resp.StatusCode)
	failure.Detail, failure.Health = detail, Answered
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		failure.Class, failure.Health = ledger.Transient, Denied
	case code == http.StatusTooEarly, code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		failure.Class = ledger.Transient
	case code >= 500, code == http.StatusRequestTimeout, code == http.StatusConflict:
		failure.Class, failure.Unanswered = ledger.Transient, true
	}
	if resp.StatusCode >= 500 {
		failure.Health = Down
	}
	if failure.Class == ledger.Transient {
		failure.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
	}
	return failure
}

// retryAfter parses both forms of the header (RFC 9110 §10.2.3) and limits the delay to one hour, so that a sink
// cannot block an effect for longer.
func retryAfter(header string, now time.Time) time.Duration {
	const most = time.Hour
	seconds, err := strconv.ParseInt(strings.TrimSpace(header), 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // if out of range, seconds is the largest number
		// Limit the seconds before the conversion: a duration overflows at about 300 years.
		return time.Duration(min(max(seconds, 0), int64(most/time.Second))) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), most)
}

// isInfrastructure reports whether err comes from pawl's own database.
func isInfrastructure(err error) bool {
	_, marked := errors.AsType[*infrastructure](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return marked || connect
}

// describe shortens an error to one line of at most 500 bytes. It removes NUL, which Postgres rejects, and invalid
// UTF-8, which Temporal rejects: a response that was cut within a character would block its workflow task.
func describe(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?")
	const most = 500
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// healthOf returns the health of the sink after an attempt that ended with err. It also returns pawl's description of
// the failure and the sink's text.
func healthOf(err error) (health Health, reason, detail string) {
	if err == nil {
		return Answered, "", ""
	}
	if failure, ok := errors.AsType[*Failure](err); ok {
		reason, detail, _ = strings.Cut(describe(failure), detailSeparator)
		health = failure.Health
	}
	return health, reason, detail
}

func unanswered(err error) bool {
	failure, ok := errors.AsType[*Failure](err)
	return ok && (failure.Unanswered || failure.Class == ledger.Ambiguous)
}
