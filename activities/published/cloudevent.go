package published

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/outbox"
)

// cloudEvent holds the context attributes of CloudEvents 1.0.2 and the data.
type cloudEvent struct {
	SpecVersion   string          `json:"specversion"`
	ID            string          `json:"id"`
	Source        string          `json:"source"`
	Type          string          `json:"type"`
	Subject       string          `json:"subject,omitempty"`
	Time          string          `json:"time"`
	CorrelationID string          `json:"correlationid,omitempty"` // cloudevents/extensions/correlation.md
	Resource      string          `json:"resource,omitempty"`
	ContentType   string          `json:"datacontenttype"`
	Data          json.RawMessage `json:"data"`
}

func cloudEventOf(e outbox.Event, api string) cloudEvent {
	return cloudEvent{
		SpecVersion: "1.0", ID: e.EventID, Source: "/pawl/" + e.Mode, Type: e.Type, Subject: e.Account,
		Time: e.CreatedAt.UTC().Format(time.RFC3339Nano), CorrelationID: e.Correlation, Resource: resource(api, e),
		ContentType: "application/json", Data: e.Data,
	}
}

// Header returns the headers of an event in the binary mode of the CloudEvents HTTP binding 1.0.2. The body of the
// request is the event's data. api is the base URL of pawl's API, or "".
func Header(e outbox.Event, api string) map[string]string {
	c := cloudEventOf(e, api)
	header := map[string]string{
		"Ce-Specversion": c.SpecVersion, "Ce-Id": c.ID, "Ce-Source": c.Source, "Ce-Type": c.Type,
		"Ce-Subject": c.Subject, "Ce-Time": c.Time, "Ce-Correlationid": c.CorrelationID, "Ce-Resource": c.Resource,
	}
	for name, value := range header {
		if header[name] = headerValue(value); value == "" {
			delete(header, name)
		}
	}
	return header
}

// JSON returns an event in the structured mode of CloudEvents 1.0.2. It has the attributes of [Header] and the data.
func JSON(e outbox.Event, api string) ([]byte, error) {
	body, err := json.Marshal(cloudEventOf(e, api))
	if err != nil {
		return nil, fmt.Errorf("encode the published event %s: %w", e.EventID, err)
	}
	return body, nil
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
