package hmac_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// The options of a source describe a sender that has no package of its own.
func ExampleProvider() {
	options := map[string]string{
		"header":    "X-Acme-Signature",
		"prefix":    "v1=",
		"template":  "{ts}.{body}",
		"timestamp": "header:X-Acme-Time",
		"id":        "/id",
		"type":      "/kind",
	}
	verifier, err := hmac.Provider.New(webhook.Settings{
		Source:  "acme",
		Secrets: []webhook.Secret{{Label: "2026", Value: "a secret of at least 24 bytes"}},
		Options: options,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sent, err := hmac.Provider.Sign(webhook.SignInput{
		Secret: "a secret of at least 24 bytes", At: now, Options: options, Body: []byte(`{"id":"e-1","kind":"order.paid"}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := &webhook.Request{Method: http.MethodPost, Header: sent.Header, Body: sent.Body, ReceivedAt: now}
	match, err := verifier.Verify(request)
	fmt.Println(match.Secret, err)
	event := verifier.Events(request)[0]
	fmt.Println(event.ID, event.Type)

	request.ReceivedAt = now.Add(time.Hour)
	_, err = verifier.Verify(request)
	fmt.Println(err)
	// Output:
	// 2026 <nil>
	// e-1 order.paid
	// timestamp_too_old: signed 1h0m0s before it was received; the tolerance is 5m0s
}
