package activities

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/outbox"
)

// cloudEvent is the request that carries an event in the binary mode of the CloudEvents HTTP binding 1.0.2: what
// describes it in headers, the event's data as the body.
func cloudEvent(ctx context.Context, url string, e outbox.Event) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(e.Data))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0",
		"Ce-Id":          e.EventID,
		"Ce-Source":      "/pawl/" + e.Mode,
		"Ce-Type":        e.Type,
		"Ce-Subject":     e.Account,
		"Ce-Time":        e.CreatedAt.UTC().Format(time.RFC3339Nano),
	} {
		req.Header.Set(name, headerValue(value))
	}
	if e.Correlation != "" { // cloudevents/extensions/correlation.md
		req.Header.Set("Ce-Correlationid", headerValue(e.Correlation))
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// headerValue writes s as §3.1.3.2 of the binding wants it: the UTF-8 of all but printable ASCII, of spaces, quotes and
// the percent sign itself is percent-encoded.
func headerValue(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
