package webhook_test

import (
	"testing"

	"github.com/pawlhq/pawl/ingress/webhook"
)

func TestIdentify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contract, event webhook.Identity
		origin          webhook.IDOrigin
		want            webhook.Identity
	}{
		"ID in the body": {"", "", webhook.FromBody, webhook.ByID},
		"ID in the body, unsigned headers elsewhere":      {webhook.ByBytes, "", webhook.FromBody, webhook.ByID},
		"ID in the body, time of sending in it":           {webhook.ByIDOrBytes, "", webhook.FromBody, webhook.ByID},
		"ID in the body, account in a header":             {webhook.ByID, webhook.ByIDOrBytes, webhook.FromBody, webhook.ByIDOrBytes},
		"ID in a header":                                  {"", "", webhook.FromHeader, webhook.ByBytes},
		"ID in a signed header":                           {webhook.ByID, "", webhook.FromHeader, webhook.ByID},
		"ID in a header that this source's scheme signs":  {"", webhook.ByID, webhook.FromHeader, webhook.ByID},
		"ID in a header, time of sending in the body":     {webhook.ByIDOrBytes, "", webhook.FromHeader, webhook.ByIDOrBytes},
		"no ID where others have one in a header":         {"", "", webhook.FromHash, webhook.ByBytes},
		"no ID where everything is signed":                {webhook.ByID, "", webhook.FromHash, webhook.ByID},
		"no ID, time of sending in the body":              {webhook.ByIDOrBytes, "", webhook.FromHash, webhook.ByIDOrBytes},
		"no origin, which a verifier should have told us": {"", "", "", webhook.ByBytes},
	} {
		got := webhook.Contract{Identity: c.contract}.Identify(webhook.Event{Identity: c.event, IDOrigin: c.origin})
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
