package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/rejection"
)

// Rejection is a refused request as it is shown: without the values of signatures and secrets.
type Rejection struct {
	ID         string              `json:"id"`
	Source     string              `json:"source"`
	ReceivedAt time.Time           `json:"received_at"`
	Class      string              `json:"class"`
	Detail     string              `json:"detail"`
	Diagnosis  []rejection.Finding `json:"diagnosis"`
	// Likely is set where a signature fitted in some way: the sender has a secret of ours.
	Likely     bool       `json:"likely_authentic"`
	RemoteAddr string     `json:"remote_addr"`
	Method     string     `json:"method"`
	BodySize   int64      `json:"body_size"`
	Truncated  bool       `json:"truncated"`
	AdmittedAt *time.Time `json:"admitted_at"`
	// Query holds the names of the query's parameters, Header the headers; only of one that is shown.
	Query  []string    `json:"query,omitempty"`
	Header http.Header `json:"headers,omitempty"`
	Body   []byte      `json:"body_base64,omitempty"`
}

func summarize(r rejection.Rejection) Rejection {
	if r.Diagnosis == nil {
		r.Diagnosis = []rejection.Finding{}
	}
	return Rejection{ID: r.ID, Source: r.Source, ReceivedAt: r.ReceivedAt, Class: r.Class, Detail: r.Detail, Diagnosis: r.Diagnosis,
		Likely: r.Likely, RemoteAddr: r.RemoteAddr, Method: r.Method, BodySize: r.BodySize, Truncated: r.Truncated, AdmittedAt: r.AdmittedAt}
}

// Rejections is where refused requests are kept; a *rejection.Store.
type Rejections interface {
	List(ctx context.Context, f rejection.Filter) ([]rejection.Rejection, error)
	Get(ctx context.Context, id string) (rejection.Rejection, error)
	MarkAdmitted(ctx context.Context, id string) error
}

// ListRejections returns refused requests, the newest first, without headers and bodies.
func ListRejections(ctx context.Context, kept Rejections, f rejection.Filter) ([]Rejection, error) {
	found, err := kept.List(ctx, f)
	if err != nil {
		return nil, err
	}
	all := make([]Rejection, len(found))
	for i, r := range found {
		all[i] = summarize(r)
	}
	return all, nil
}

// ShowRejection returns one refused request, with the values of signature and secret headers left out: of those whose
// name says so, and of those that are named in signatures.
func ShowRejection(ctx context.Context, kept Rejections, id string, signatures ...string) (*Rejection, error) {
	r, err := getRejection(ctx, kept, id)
	if err != nil {
		return nil, err
	}
	shown := summarize(r)
	shown.Header, shown.Query, shown.Body = redacted(r.Header, signatures), parameters(r.Query), r.Body
	return &shown, nil
}

// RejectedRequest returns a refused request as it was kept, signatures among its headers: it is for who verifies it again.
func RejectedRequest(ctx context.Context, kept Rejections, id string) (rejection.Rejection, error) {
	return getRejection(ctx, kept, id)
}

// UnknownRejectionError means that no refused request of the ID is kept any more.
type UnknownRejectionError struct{ ID string }

func (e *UnknownRejectionError) Error() string {
	return fmt.Sprintf("no rejection %q is kept: they go after %d days, and when more than %d of a source are newer",
		e.ID, int(rejection.KeptFor.Hours()/24), rejection.PerSource)
}

func getRejection(ctx context.Context, kept Rejections, id string) (rejection.Rejection, error) {
	r, err := kept.Get(ctx, id)
	if errors.Is(err, rejection.ErrNotFound) {
		return r, &UnknownRejectionError{ID: id}
	}
	return r, err
}

// secretive are parts of the names of headers whose values are not shown.
var secretive = []string{"signature", "hmac", "token", "authorization", "cookie", "secret", "key", "password", "auth"}

func redacted(h http.Header, signatures []string) http.Header {
	shown := make(http.Header, len(h))
	for name, values := range h {
		lower := strings.ToLower(name)
		hide := strings.HasSuffix(lower, "-sig") || slices.ContainsFunc(secretive, func(part string) bool { return strings.Contains(lower, part) }) ||
			slices.ContainsFunc(signatures, func(signature string) bool { return strings.EqualFold(name, signature) })
		for _, v := range values {
			if hide {
				v = fmt.Sprintf("(%d bytes, not shown)", len(v))
			}
			shown[name] = append(shown[name], v)
		}
	}
	return shown
}

// parameters returns the names in a query; the values may be tokens.
func parameters(query string) []string {
	values, _ := url.ParseQuery(query) // what cannot be read is not shown either
	return slices.Sorted(maps.Keys(values))
}
