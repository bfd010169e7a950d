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

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/audit"
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
	// Revealed is set where Body is what came in. Else Body is JSON that is masked, or nil where what came in is neither
	// JSON nor a form, or was cut.
	Revealed bool   `json:"revealed,omitempty"`
	Body     []byte `json:"-"`
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

// ShowRejection returns one refused request, with its headers and its body masked by the rule that [Mask] tells.
// signatures are the headers that sources name for signatures.
func ShowRejection(ctx context.Context, kept Rejections, id string, signatures ...string) (*Rejection, error) {
	shown, err := readRejection(ctx, kept, id, signatures)
	if err != nil {
		return nil, err
	}
	shown.Header = maskHeaders(shown.Header)
	if shown.Body, err = Mask(shown.Body); err != nil {
		shown.Body = nil // it is of no form that can be masked
	}
	return shown, nil
}

// RevealRejection returns one refused request, whole, but for signatures and secrets among its headers. Who wants to see it
// and why stands in the audit trail before it is returned.
func RevealRejection(ctx context.Context, kept Rejections, trail *audit.Store, id, who, why string, signatures ...string) (*Rejection, error) {
	if err := accountable(who, why); err != nil {
		return nil, err
	}
	shown, err := readRejection(ctx, kept, id, signatures)
	if err != nil {
		return nil, err
	}
	shown.Revealed = true
	return shown, trail.Append(ctx, revealOf(shown.ID, shown.Source, len(shown.Body), false, who, why))
}

func readRejection(ctx context.Context, kept Rejections, id string, signatures []string) (*Rejection, error) {
	r, err := getRejection(ctx, kept, id)
	if err != nil {
		return nil, err
	}
	shown := summarize(r)
	shown.Header, shown.Query, shown.Body = redacted(r.Header, signatures), parameters(r.Query), r.Body
	return &shown, nil
}

// RejectedRequest returns a refused request as it was kept, signatures among its headers: it is for who verifies it again.
// Who wants that and why stands in the audit trail before it is returned.
func RejectedRequest(ctx context.Context, kept Rejections, trail *audit.Store, id, who, why string) (rejection.Rejection, error) {
	if err := accountable(who, why); err != nil {
		return rejection.Rejection{}, err
	}
	r, err := getRejection(ctx, kept, id)
	if err != nil {
		return r, err
	}
	return r, trail.Append(ctx, revealOf(r.ID, r.Source, len(r.Body), true, who, why))
}

// revealOf is what the audit trail holds of a refused request that is revealed.
func revealOf(id, source string, size int, signed bool, who, why string) audit.Action {
	return audit.Action{
		RequestID: "reveal/" + id + "/" + uuid.NewString(), Actor: who, Action: "reveal", Target: id, Reason: why,
		Before: map[string]any{"rejection": id, "source": source, "bytes": size, "with_signatures": signed}, After: map[string]any{},
	}
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
