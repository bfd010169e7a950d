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

// Error types of the errors that activities return to Temporal; they stand in histories.
const (
	// TypeTransient is a failure of the outside system that will be tried again.
	TypeTransient = "Transient"
	// TypeNotYet says that something that will be there is not there yet: another holds the claim.
	TypeNotYet = "NotYet"
	// TypeInfrastructure is trouble of our own: the database is away. It is tried for ever.
	TypeInfrastructure = "Infrastructure"
)

// TypeForeign is the type of an activity's error when its input contradicts the receipt. It stands in histories.
const TypeForeign = "NotOfItsReceipt"

// Foreign returns the error of an activity whose input is not what the receipt of the event says. pawl starts no such
// run: somebody else has written to Temporal. It is not tried again, and its run fails.
func Foreign(of event.Ref, cause error) error {
	return temporal.NewNonRetryableApplicationError("refused: this is not what receipt "+of.ReceiptID+" says",
		TypeForeign, cause)
}

// Failure is an error with its class, made by the code that talks to an outside system.
type Failure struct {
	Class ledger.Class
	// RetryAfter is what the other side asked for, zero if it did not.
	RetryAfter time.Duration
	// Unanswered is set when the request was on its way and no answer came back that says what became of it.
	Unanswered bool
	// Health tells how the sink is.
	Health Health
	// Err says in our own words what happened. It goes into workflow histories.
	Err error
	// Said is what the other side said about it, or an error that may quote it. It is kept in our database and goes no
	// further: nobody knows what stands in it.
	Said string
}

// aside separates our own words, which hold none, from what the other side said.
const aside = " – "

func (f *Failure) Error() string {
	if f.Said == "" {
		return f.Err.Error()
	}
	return f.Err.Error() + aside + f.Said
}

func (f *Failure) Unwrap() error { return f.Err }

// inOurWords leaves out of the description of a failure what the other side said.
func inOurWords(description string) string {
	ours, _, _ := strings.Cut(description, aside)
	return ours
}

// Refuse returns a failure that says something about the customer: the request cannot be met, and a flow may take
// back the effects that hang on it.
func Refuse(format string, args ...any) *Failure {
	return &Failure{Class: ledger.Permanent, Err: fmt.Errorf(format, args...)}
}

// Fault returns a failure of our own or of the deployment. It is not tried again by itself, and takes nothing back.
func Fault(format string, args ...any) *Failure {
	return &Failure{Class: ledger.Fault, Err: fmt.Errorf(format, args...)}
}

// Broken returns the failure of a conversation that err has ended. It can pass.
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
		Said: err.Error()}
}

// Doubt returns a failure that leaves open whether the effect happened.
func Doubt(format string, args ...any) *Failure {
	return &Failure{Class: ledger.Ambiguous, Err: fmt.Errorf(format, args...)}
}

// NotWanted is returned by fn when the effect shall not be done after all, e.g. because newer state
// superseded it. It is recorded as skipped, with the reason.
type NotWanted struct{ Reason string }

func (n *NotWanted) Error() string { return n.Reason }

// infrastructure marks an error of our own database, which is no attempt at the effect.
type infrastructure struct{ err error }

func (i *infrastructure) Error() string { return i.err.Error() }
func (i *infrastructure) Unwrap() error { return i.err }

// Infrastructure marks err as trouble of our own that says nothing about the effect: it is tried
// again without counting. Use it for reads of our own database inside fn. A nil err stays nil.
func Infrastructure(err error) error {
	if err == nil {
		return nil
	}
	return &infrastructure{err}
}

// Classify returns an attempt's error's class, and how long the other side asked to wait. An attempt may be repeated
// unless it is known to be refused or in doubt.
func Classify(err error) (class ledger.Class, retryAfter time.Duration) {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure.Class, failure.RetryAfter
	}
	return ledger.Transient, 0
}

// FromStatus returns the failure that an HTTP answer means, nil for 2xx; said is what stands in it. 408, 409, 425, 429
// and 5xx can pass. Every other answer is a fault: the same request would get it again, and it may come from any hop on
// the way. Only who knows the other side can tell that one is a refusal.
//
// 401 and 403 are about our token, and so about everything that is sent with it: they can pass once somebody has mended
// that, and wait for it behind the sink's breaker.
//
// 425 (RFC 8470 §5.2), 429 (RFC 6585 §4) and 503 (RFC 9110 §15.6.4) turn a request away before the work.
// Every other answer that can pass leaves open whether the work was done, and counts as unanswered: a
// sink may fail after its commit (500), a gateway lose what the sink behind it said (502, 504, 408), and
// 409 say that an earlier try under the key is still being worked on.
func FromStatus(resp *http.Response, said string, now time.Time) *Failure {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	failure := Fault("%s answered %d", resp.Request.URL.Host, resp.StatusCode)
	failure.Said, failure.Health = said, Answered
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

// retryAfter reads the header's two forms (RFC 9110 §10.2.3), bounded to an hour: a sink must not
// be able to park an effect for longer than an operator would look for it.
func retryAfter(header string, now time.Time) time.Duration {
	const most = time.Hour
	seconds, err := strconv.ParseInt(strings.TrimSpace(header), 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // of a number that is too large, it is the largest
		// Bounded before it is made a duration: some 300 years of nanoseconds are no number any more.
		return time.Duration(min(max(seconds, 0), int64(most/time.Second))) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), most)
}

// isInfrastructure reports whether err is about our own database and not about the effect.
func isInfrastructure(err error) bool {
	_, marked := errors.AsType[*infrastructure](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return marked || connect
}

// describe shortens an error for people, and bounds what a peer said in it. Postgres takes no NUL, and
// Temporal's protocol no invalid UTF-8: cut in the middle of a letter, a long answer kept a whole workflow
// task from being reported, and with it the effects that had gone well.
func describe(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?")
	const most = 500
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// healthOf says what the end of an attempt says about the sink, in our words and in the sink's. An attempt without a
// failure has reached the sink.
func healthOf(err error) (health Health, reason, said string) {
	if err == nil {
		return Answered, "", ""
	}
	if failure, ok := errors.AsType[*Failure](err); ok {
		reason, said, _ = strings.Cut(describe(failure), aside)
		health = failure.Health
	}
	return health, reason, said
}

func unanswered(err error) bool {
	failure, ok := errors.AsType[*Failure](err)
	return ok && (failure.Unanswered || failure.Class == ledger.Ambiguous)
}
