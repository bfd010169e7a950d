package ingress

import (
	"context"
	"net/http"
	"slices"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// probe returns the probe that a verified r is, and false for every delivery of the provider's. The proof is by the
// secret that has admitted r.
func (s *Source) probe(r *webhook.Request, match webhook.Match) (webhook.Probe, bool) {
	p, marked := webhook.ReadProbe(r.Body)
	if !marked {
		return p, false
	}
	i := slices.IndexFunc(s.Secrets, func(secret webhook.Secret) bool { return secret.Label == match.Secret })
	return p, i >= 0 && p.Proven(s.Name, s.Secrets[i].Value, s.Verifier.Events(r))
}

// keepProbe commits that a probe arrived and answers it as a delivery that nothing follows from. It counts neither as
// an event nor as a use of its secret.
func (d *delivery) keepProbe(p webhook.Probe, match webhook.Match) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.c.Request().Context()), d.s.cfg.Limits.Ack)
	defer cancel()
	if err := d.s.cfg.Receipts.KeepProbe(ctx, receipt.Probe{ID: p.ID, Source: d.source.Name,
		ReceivedAt: d.r.ReceivedAt, SecretLabel: match.Secret}); err != nil {
		d.s.cfg.Log.Warn("probe not committed", "source", d.source.Name, "error", err)
		d.outcome = unfinished
		return unavailable(d.c, "unavailable")
	}
	d.outcome = probed
	return d.c.JSON(http.StatusOK, struct {
		Received bool `json:"received"`
		Probe    bool `json:"probe"`
	}{true, true})
}
