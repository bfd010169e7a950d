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

	"github.com/pawlhq/pawl/schema/rejection"
)

// Rejection is a rejected request without the values of signatures and secrets.
type Rejection struct {
	rejection.Rejection
	// Query lists the names of the query parameters. Query and Header are set only for a single request, not in a list.
	Query  []string    `json:"query,omitempty"`
	Header http.Header `json:"headers,omitempty"`
	// Revealed is set if Body is the original body. Otherwise Body is masked JSON, or nil if the original is neither
	// JSON nor a form, or was truncated.
	Revealed bool   `json:"revealed,omitempty"`
	Body     []byte `json:"-"`
}

// ListRejections returns rejected requests without headers and bodies, newest first.
func (o *Operator) ListRejections(ctx context.Context, f rejection.Filter) ([]Rejection, error) {
	found, err := rejection.New(o.DB).List(ctx, f)
	if err != nil {
		return nil, err
	}
	all := make([]Rejection, len(found))
	for i, r := range found {
		all[i].Rejection = r
	}
	return all, nil
}

// ShowRejection returns a rejected request with its headers and its masked body; see [Mask].
func (o *Operator) ShowRejection(ctx context.Context, id string) (*Rejection, error) {
	r, err := rejection.New(o.DB).Get(ctx, id)
	if err != nil {
		return nil, noRejection(id, err)
	}
	shown := o.reveal(r)
	shown.Revealed, shown.Header = false, maskHeaders(shown.Header)
	shown.Body, _ = Mask(shown.Body) // nil if it is neither JSON nor a form
	return shown, nil
}

// reveal returns a rejected request without the values of signatures and secrets in its headers.
func (o *Operator) reveal(r rejection.Rejection) *Rejection {
	query, _ := url.ParseQuery(r.Query) // values may be tokens, and an invalid query is not shown
	return &Rejection{r, slices.Sorted(maps.Keys(query)), redacted(r.Header, o.Signatures), true, r.Body}
}

// VerbRevealRejection shows a rejected request completely. Its result is a [*Rejection]. The embedded request includes
// the signatures, for a person who verifies it again.
const VerbRevealRejection = "reveal-rejection"

// revealRejectionRule writes the audit record before it reads the request.
var revealRejectionRule = rule[rejection.Rejection, *Rejection]{
	find: func(ctx context.Context, d *Decision) (rejection.Rejection, string, error) {
		r, err := rejection.New(d.o.DB).Find(ctx, d.Target)
		return r, "rejection/" + d.Target, noRejection(d.Target, err)
	},
	check: func(_ context.Context, d *Decision, r rejection.Rejection) (*change, error) {
		return &change{target: r.ID,
			before: map[string]any{"rejection": r.ID, "source": r.Source, "bytes": r.BodySize, "kind": d.Kind}}, nil
	},
	answer: func(ctx context.Context, d *Decision, r rejection.Rejection, _ recorded) (string, *Rejection, error) {
		r, err := rejection.New(d.o.DB).Get(ctx, r.ID)
		if err != nil {
			return "", nil, noRejection(d.Target, err)
		}
		return "it is shown", d.o.reveal(r), nil
	},
}

// findRejection returns the rejected request of a decision.
func findRejection(ctx context.Context, d *Decision) (rejection.Rejection, string, error) {
	r, err := rejection.New(d.o.DB).Get(ctx, d.Target)
	return r, "rejection/" + d.Target, noRejection(d.Target, err)
}

// noRejection converts the error of reading a rejected request.
func noRejection(id string, err error) error {
	if errors.Is(err, rejection.ErrNotFound) {
		return unknown("no rejection %q is kept: they go after %d days, and when more than %d of a source are newer",
			id, int(rejection.KeptFor.Hours()/24), rejection.PerSource)
	}
	return err
}

// secretive lists parts of header names. The values of these headers are not shown.
var secretive = []string{"signature", "hmac", "token", "authorization", "cookie", "secret", "key", "password", "auth"}

func redacted(h http.Header, signatures []string) http.Header {
	shown := make(http.Header, len(h))
	for name, values := range h {
		lower := strings.ToLower(name)
		hide := strings.HasSuffix(lower, "-sig") ||
			slices.ContainsFunc(secretive, func(part string) bool { return strings.Contains(lower, part) }) ||
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
