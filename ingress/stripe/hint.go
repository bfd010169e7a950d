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
			" and no v1, the only scheme that counts; v0 is Stripe's fake one beside test events"})
	}
	body := webhook.ReadEnvelope(r.Body)
	switch thin := body.String("object") == ThinObject; {
	case thin && !v.thin:
		hints = append(hints, webhook.Hint{Code: webhook.ThinEvent,
			Text: "the body looks like a thin event: the event destination has its own signing secret" +
				"; add that secret, or give the destination a source with options.payload: thin"})
	case !thin && v.thin && body.String("object") == "event":
		hints = append(hints, webhook.Hint{Code: webhook.SnapshotEvent,
			Text: "the body looks like a snapshot event and the source is for thin ones: " +
				"the snapshot endpoint has its own signing secret; point it at its own source"})
	}
	return hints
}

// schemesOf returns up to four keys of the header's pairs, except the time.
func schemesOf(header string) []string {
	var schemes []string
	for pair := range strings.SplitSeq(header, ",") {
		key, _, ok := strings.Cut(pair, "=")
		// A key is shown, so it must look like a key.
		word := key != "" && len(key) <= 8 && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
		if ok && word && key != "t" && !slices.Contains(schemes, key) && len(schemes) < 4 {
			schemes = append(schemes, key)
		}
	}
	return schemes
}
