package activities

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/outbox"
)

// cloudEvent returns the headers of an event in the binary mode of the CloudEvents HTTP binding 1.0.2. The body of the
// request is the event's data. The caller omits headers with empty values.
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

// resource returns the API URL of an event's subject: the tasks of an object, an invoice, or the access of an account.
// It returns "" if api is "" or if the event has no account.
func resource(api string, e outbox.Event) string {
	if api == "" || e.Account == "" {
		return ""
	}
	var data struct{ Invoice string }
	_ = json.Unmarshal(e.Data, &data) // if this fails, the invoice is ""
	switch noun, _, _ := strings.Cut(e.Type, "."); {
	case noun == "task":
		return api + "/tasks/" + url.PathEscape(e.Account)
	case data.Invoice != "" && (noun == "invoice" || noun == "payment"):
		return api + "/invoices/" + url.PathEscape(data.Invoice) + "?mode=" + e.Mode
	}
	return api + "/accounts/" + url.PathEscape(e.Account) + "/access?mode=" + e.Mode
}

// headerValue encodes s as required by §3.1.3.2 of the binding: spaces, quotes, percent signs and bytes outside of
// printable ASCII are percent-encoded.
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
