// Package rejection implements what operators read and decide about rejected requests.
package rejection

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/mask"
	"github.com/pawlhq/pawl/schema/rejection"
)

// Shown is a rejected request without the values of signatures and secrets.
type Shown struct {
	rejection.Rejection
	// Query lists the names of the query parameters. Query and Header are set only for a single request, not in a list.
	Query  []string    `json:"query,omitempty"`
	Header http.Header `json:"headers,omitempty"`
	// Revealed is set if Body is the original body. Otherwise Body is masked JSON, or nil if the original is neither
	// JSON nor a form, or was truncated.
	Revealed bool   `json:"revealed,omitempty"`
	Body     []byte `json:"-"`
}

// Omitted implements [decide.Omitting].
func (r *Shown) Omitted() []any { return []any{&r.Body} }

// List returns rejected requests without headers and bodies, newest first.
func List(ctx context.Context, o *decide.Operator, f rejection.Filter) ([]Shown, error) {
	found, err := rejection.New(o.DB).List(ctx, f)
	if err != nil {
		return nil, err
	}
	all := make([]Shown, len(found))
	for i, r := range found {
		all[i].Rejection = r
	}
	return all, nil
}

// Show returns a rejected request with its headers and its masked body; see [mask.Payload].
func Show(ctx context.Context, o *decide.Operator, id string) (*Shown, error) {
	r, err := rejection.New(o.DB).Get(ctx, id)
	if err != nil {
		return nil, noRejection(id, err)
	}
	shown := revealed(o, r)
	shown.Revealed, shown.Header = false, mask.Headers(shown.Header)
	shown.Body, _ = mask.Payload(shown.Body) // nil if it is neither JSON nor a form
	return shown, nil
}

// revealed returns a rejected request without the values of signatures and secrets in its headers.
func revealed(o *decide.Operator, r rejection.Rejection) *Shown {
	query, _ := url.ParseQuery(r.Query) // values may be tokens, and invalid parts of the query are omitted
	return &Shown{r, slices.Sorted(maps.Keys(query)), mask.Redacted(r.Header, o.Signatures), true, r.Body}
}

// find returns the rejected request of a decision.
func find(ctx context.Context, d *decide.Decision) (rejection.Rejection, string, error) {
	r, err := rejection.New(d.Operator.DB).Get(ctx, d.Target)
	return r, "rejection/" + d.Target, noRejection(d.Target, err)
}

// noRejection converts the error of reading a rejected request.
func noRejection(id string, err error) error {
	if errors.Is(err, rejection.ErrNotFound) {
		return decide.Unknownf("no rejection %q: pawl deletes rejections after %d days, and keeps the newest %d of a source",
			id, int(rejection.KeptFor.Hours()/24), rejection.PerSource)
	}
	return err
}
