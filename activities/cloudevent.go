package activities

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/outbox"
)

// cloudEvent is the header of a request that carries an event in the binary mode of the CloudEvents HTTP binding 1.0.2,
// with the event's data as the body. Empty values are left out.
func cloudEvent(e outbox.Event, api string) map[string]string {
	return map[string]string{
		"Ce-Specversion":   "1.0",
		"Ce-Id":            e.EventID,
		"Ce-Source":        "/pawl/" + e.Mode,
		"Ce-Type":          e.Type,
		"Ce-Subject":       e.Account,
		"Ce-Time":          e.CreatedAt.UTC().Format(time.RFC3339Nano),
		"Ce-Correlationid": e.Correlation, // cloudevents/extensions/correlation.md
		"Ce-Resource":      resource(api, e),
	}
}

// resource is where the API shows what an event is about: the tasks about an object, an invoice, or what the account
// may use. It is "" without an API, and for an event of no account.
func resource(api string, e outbox.Event) string {
	if api == "" || e.Account == "" {
		return ""
	}
	var data struct{ Invoice string }
	_ = json.Unmarshal(e.Data, &data) // one that cannot be read names no invoice
	switch noun, _, _ := strings.Cut(e.Type, "."); {
	case noun == "task":
		return api + "/tasks/" + url.PathEscape(e.Account)
	case data.Invoice != "" && (noun == "invoice" || noun == "payment"):
		return api + "/invoices/" + url.PathEscape(data.Invoice) + "?mode=" + e.Mode
	}
	return api + "/accounts/" + url.PathEscape(e.Account) + "/access?mode=" + e.Mode
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
