package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
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

// ShowRejection returns one refused request, with the values of signature and secret headers left out.
func ShowRejection(ctx context.Context, kept Rejections, id string) (*Rejection, error) {
	r, err := getRejection(ctx, kept, id)
	if err != nil {
		return nil, err
	}
	shown := summarize(r)
	shown.Header, shown.Query, shown.Body = redacted(r.Header), parameters(r.Query), r.Body
	return &shown, nil
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

func redacted(h http.Header) http.Header {
	shown := make(http.Header, len(h))
	for name, values := range h {
		hide := slices.ContainsFunc(secretive, func(part string) bool { return strings.Contains(strings.ToLower(name), part) })
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
	var names []string
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Admission is what became of a request that was admitted after all.
type Admission struct {
	Rejection string    `json:"rejection"`
	Source    string    `json:"source"`
	Secret    string    `json:"secret"`
	Receipts  []Receipt `json:"receipts"`
}

// Receipt is one event of an admitted request.
type Receipt struct {
	ID        string         `json:"id"`
	EventID   string         `json:"event_id"`
	Type      string         `json:"type"`
	Status    receipt.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	Duplicate bool           `json:"duplicate"`
}

// Admitter admits refused requests. All of its fields are required.
type Admitter struct {
	Rejections Rejections
	// Verify checks a request again against its own receive time, as its source does, and returns the
	// delivery that a live one would have been. Its error says why the request is still refused.
	Verify func(context.Context, rejection.Rejection) (receipt.Delivery, error)
	Insert func(context.Context, receipt.Delivery) ([]receipt.Outcome, error)
	Audit  *audit.Store
}

// missing says what of a truncated request's body is there.
func missing(r rejection.Rejection) string {
	switch {
	case r.BodySize == 0:
		return "its body was not read"
	case int64(len(r.Body)) == r.BodySize:
		return fmt.Sprintf("only the first %d bytes of its body were read", r.BodySize)
	}
	return fmt.Sprintf("only %d of its %d bytes were kept", len(r.Body), r.BodySize)
}

// Admit takes a refused request in after all: it is verified again against its own receive time and
// accepted as a live one is. It may be called twice; the second time finds the receipt that is there.
// The dispatcher of a running ingress finds what was admitted.
//
// It is recorded before it is done: nothing is ever admitted that the audit trail does not hold.
func (a *Admitter) Admit(ctx context.Context, id, who, why string) (*Admission, error) {
	if strings.TrimSpace(who) == "" || strings.TrimSpace(why) == "" {
		return nil, errors.New("who and why are required: both go into the audit trail")
	}
	r, err := getRejection(ctx, a.Rejections, id)
	if err != nil {
		return nil, err
	}
	if r.Truncated {
		return nil, fmt.Errorf("rejection %s cannot be admitted: %s, and without the rest no signature can be checked; "+
			"let the provider send it again", id, missing(r))
	}
	d, err := a.Verify(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("rejection %s is still refused: %w", id, err)
	}
	events := make([]string, len(d.Events))
	for i, e := range d.Events {
		events[i] = e.EventID
	}
	err = a.Audit.Append(ctx, audit.Action{
		RequestID: "rejection/" + id + "/" + uuid.NewString(), Actor: who, Action: "admit", Target: id, Reason: why,
		Before: map[string]any{"source": r.Source, "class": r.Class, "received_at": r.ReceivedAt, "admitted": r.AdmittedAt != nil},
		After:  map[string]any{"secret": d.Secret, "events": events},
	})
	if err != nil {
		return nil, err
	}
	outcomes, err := a.Insert(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("admit rejection %s: %w; try again, nothing is taken twice", id, err)
	}
	if err := a.Rejections.MarkAdmitted(ctx, id); err != nil {
		return nil, err
	}
	admission := &Admission{Rejection: id, Source: r.Source, Secret: d.Secret, Receipts: []Receipt{}}
	for i, o := range outcomes {
		e := d.Events[i]
		admission.Receipts = append(admission.Receipts, Receipt{o.ReceiptID, o.EventID, e.Type, o.Status, o.Reason, o.Duplicate})
	}
	return admission, nil
}
