package capture

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Verdict is the output of `pawl verify`.
type Verdict struct {
	Valid bool `json:"valid"`
	*Accepted
	*Refused
}

// Accepted describes the first event of a valid request.
type Accepted struct {
	EventID   *string `json:"event_id"`
	EventType *string `json:"event_type"`
	ObjectID  *string `json:"object_id"`
	Account   *string `json:"account"`
	Created   *string `json:"created"`
	Secret    string  `json:"secret"`
	// ReceiptIDFrom is "hash" if the provider sends no ID. The ID of the receipt is then derived from the bytes.
	ReceiptIDFrom string `json:"receipt_id_from,omitempty"`
	Problem       string `json:"problem,omitempty"`
	// Events counts the events of the delivery. The fields above describe the first one.
	Events int `json:"events"`
}

// Refused describes why a request is invalid.
type Refused struct {
	Class     webhook.Class `json:"class"`
	Diagnosis string        `json:"diagnosis"`
}

// Verify verifies the request with the provider's verifier. If it returns an error, the file does not describe a
// source.
func (c *Request) Verify() (Verdict, error) {
	settings := c.settings()
	if c.PublicKey != "" && len(settings.Secrets) == 0 && c.CertificatePEM == "" {
		return Verdict{}, fmt.Errorf("public_key: %s is not verified with a bare public key: use secret, secrets or certificate_pem", c.Provider)
	}
	var refused *webhook.Error
	verifier, err := c.provider.New(settings)
	switch {
	case errors.As(err, &refused):
		// certificate_pem was downloaded from the PAYPAL-CERT-URL of the request. A certificate of another owner means
		// that the request is forged, and not that the file is wrong.
		return Verdict{Refused: &Refused{refused.Class, "certificate_pem: " + refused.Detail}}, nil
	case err != nil && len(settings.Secrets) == 0 && c.CertificatePEM == "":
		// The error of the provider would mention configuration keys that a file does not have.
		return Verdict{}, errors.New("there is nothing to verify with: write secret, secrets, public_key or certificate_pem")
	case err != nil:
		return Verdict{}, err
	}
	r := c.request()
	match, err := verifier.Verify(r)
	if err != nil {
		if !errors.As(err, &refused) {
			return Verdict{}, err
		}
		return Verdict{Refused: &Refused{refused.Class, explainRejection(c.provider, settings, r, refused)}}, nil
	}
	v := Verdict{Valid: true, Accepted: &Accepted{Secret: match.Secret}}
	events := verifier.Events(r)
	v.Events = len(events)
	if len(events) > 0 {
		v.Accepted.read(events[0])
	}
	return v, nil
}

// explainRejection explains why r was rejected. It includes the findings of the probes that pawl uses for stored
// rejections.
func explainRejection(provider webhook.Provider, settings webhook.Settings, r *webhook.Request,
	refused *webhook.Error) string {
	diagnoser, err := rejected.NewDiagnoser(map[string]rejected.Source{settings.Source: {Provider: provider,
		Settings: settings}})
	if err != nil {
		return refused.Detail
	}
	texts := []string{refused.Detail}
	for _, f := range diagnoser.Diagnose(settings.Source, r, refused).Findings {
		if f.Text != refused.Detail {
			texts = append(texts, f.Text)
		}
	}
	return strings.Join(texts, "; ")
}

func (a *Accepted) read(e webhook.Event) {
	a.EventID, a.EventType, a.ObjectID, a.Account = optional(e.ID), optional(e.Type), optional(e.Object),
		optional(e.Account)
	if e.IDOrigin == webhook.FromHash {
		a.EventID, a.ReceiptIDFrom = nil, string(e.IDOrigin)
	}
	if !e.OccurredAt.IsZero() {
		a.Created = optional(e.OccurredAt.UTC().Format(time.RFC3339Nano))
	}
	a.Problem = e.Problem
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Failed reports whether the request is rejected.
func (v Verdict) Failed() bool { return !v.Valid }
