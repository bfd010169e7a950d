package ingress_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// A probe of the source is kept apart and is no event. What looks like one and is not proven is an event like any other:
// nobody makes one vanish.
func TestDeliver_Probe_NoEvent(t *testing.T) {
	t.Parallel()
	ours := []webhook.Event{{ID: "evt_1", IDOrigin: webhook.FromBody}}
	mark := webhook.NewProbe()
	for name, c := range map[string]struct {
		mark  string
		probe bool
	}{
		"proven":                 {mark.For("shop", "secret", ours).String(), true},
		"of another source":      {mark.For("store", "secret", ours).String(), false},
		"under another secret":   {mark.For("shop", "guessed", ours).String(), false},
		"under none":             {mark.For("shop", "", ours).String(), false},
		"of another event":       {mark.For("shop", "secret", []webhook.Event{{ID: "evt_2", IDOrigin: webhook.FromBody}}).String(), false},
		"unproven":               {mark.String(), false},
		"cut off":                {mark.For("shop", "secret", ours).String()[:40], false},
		"with a text for its ID": {"pawl-probe.who knows." + strings.Repeat("0", 64), false},
		"the word alone":         {"pawl-probe.", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(_ *ingress.Config, s *ingress.Source) {
				s.Secrets = []webhook.Secret{{Label: "main", Value: "secret"}}
			})
			got := b.post(t, `{"ID":"evt_1","Type":"order.paid","note":"`+c.mark+`"}`)
			events, probes := b.count(t, `select count(*) from receipts`), b.count(t, `select count(*) from probes where source = 'shop' and secret_label = 'main'`)
			if c.probe {
				if got.status != http.StatusOK || !strings.Contains(got.body, `"probe":true`) || events != 0 || probes != 1 || len(b.handed) != 0 {
					t.Errorf("answered %d %s, %d events, %d probes, %d handed over; want 200 and a probe alone", got.status, got.body, events, probes, len(b.handed))
				}
				return
			}
			if got.status != http.StatusAccepted || events != 1 || probes != 0 {
				t.Errorf("answered %d %s, %d events, %d probes; want an event alone", got.status, got.body, events, probes)
			}
		})
	}
}
