package stripe

import (
	"slices"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
)

func (v *verifier) Hints(r *webhook.Request) []webhook.Hint {
	var hints []webhook.Hint
	if schemes := schemesOf(r.Header.Get(signatureHeader)); len(schemes) > 0 && !slices.Contains(schemes, "v1") {
		hints = append(hints, webhook.Hint{Code: webhook.UnknownScheme, Text: "the signature header has " +
			strings.Join(schemes, ", ") +
			" and no v1, the only valid scheme. (v0 is a fake signature that Stripe adds to test events)"})
	}
	body := webhook.ReadEnvelope(r.Body)
	switch thin := body.String("object") == ThinObject; {
	case thin && !v.thin:
		hints = append(hints, webhook.Hint{Code: webhook.ThinEvent,
			Text: "the body looks like a thin event, and its event destination has a signing secret of its own" +
				"; add that secret to this source, or create a source with options.payload: thin for the destination"})
	case !thin && v.thin && body.String("object") == "event":
		hints = append(hints, webhook.Hint{Code: webhook.SnapshotEvent,
			Text: "the body looks like a snapshot event, but the source is for thin events: " +
				"the endpoint of snapshot events has a signing secret of its own; create a source for it"})
	}
	return hints
}

// schemesOf returns up to four keys of the signature header, without the key of the time.
func schemesOf(header string) []string {
	var schemes []string
	for pair := range strings.SplitSeq(header, ",") {
		key, _, ok := strings.Cut(pair, "=")
		// An operator sees the keys, so schemesOf omits any text that does not look like a key.
		word := key != "" && len(key) <= 8 && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
		if ok && word && key != "t" && !slices.Contains(schemes, key) && len(schemes) < 4 {
			schemes = append(schemes, key)
		}
	}
	return schemes
}
