package forge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Probe returns a delivery to the source that its pawl takes for a probe: signed now as the provider signs, and marked
// with the target's secret. v is the source's verifier. A pawl that does not know probes finds an event of a type that
// nothing is for.
func (t Target) Probe(ctx context.Context, source string, v webhook.Verifier, p Params) (*http.Request, webhook.Probe,
	error) {
	p.Type, p.Options = webhook.ProbeType, t.Options
	e, err := New(p, sampleBody(p.Provider)) // also Stripe's: no object of a flow's is in it
	if err != nil {
		return nil, webhook.Probe{}, err
	}
	unproven := webhook.NewProbe()
	if e.Body, err = marked(e.Body, unproven); err != nil {
		return nil, webhook.Probe{}, fmt.Errorf("probe as %s: %w", p.Provider.Name, err)
	}
	// The mark is proven for the events that the receiver reads: the same, since it keeps its length and its place.
	req, err := t.Request(ctx, e, time.Now())
	if err != nil {
		return nil, webhook.Probe{}, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, webhook.Probe{}, err
	}
	proven := unproven.For(source, t.Secret,
		v.Events(&webhook.Request{Method: req.Method, URL: req.URL.String(), Header: req.Header, Body: body,
			ReceivedAt: time.Now()}))
	e.Body = bytes.Replace(e.Body, []byte(unproven.String()), []byte(proven.String()), 1)
	req, err = t.Request(ctx, e, time.Now())
	return req, proven, err
}

// marked puts a probe's mark into a body, as a field that nobody reads.
func marked(body []byte, p webhook.Probe) ([]byte, error) {
	field := `"pawl_probe":"` + p.String() + `"`
	switch i := bytes.IndexByte(body, '{'); {
	case len(body) > 0 && (body[0] == '{' || body[0] == '['):
		if i < 0 {
			return nil, fmt.Errorf("its body has no object")
		}
		if rest := bytes.TrimSpace(body[i+1:]); len(rest) > 0 && rest[0] != '}' {
			field += ","
		}
		return append(append(append([]byte{}, body[:i+1]...), field...), body[i+1:]...), nil
	case len(body) == 0:
		return []byte("pawl_probe=" + p.String()), nil
	}
	return append(append([]byte{}, body...), "&pawl_probe="+p.String()...), nil
}
