package capture

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
)

// File is a rejected request in the format of `pawl verify --request`; see [Request].
type File struct {
	Provider         string            `json:"provider"`
	Options          map[string]string `json:"options,omitempty"`
	Method           string            `json:"method"`
	URL              string            `json:"url"`
	Headers          http.Header       `json:"headers"`
	Body             []byte            `json:"body_base64"`
	NowUnix          float64           `json:"now_unix"`
	ToleranceSeconds float64           `json:"tolerance_seconds,omitempty"`
	// Claimed lists the events that the request contains according to its body. They are not verified.
	Claimed []Claim `json:"claimed_unverified"`
}

// Claim is an event in a request that was not verified.
type Claim struct {
	EventID string `json:"event_id"`
	Type    string `json:"type"`
}

// FileOf returns a rejection in the format of `pawl verify --request`.
func FileOf(cfg *config.Config, providers map[string]webhook.Provider, r rejection.Rejection) (*File, error) {
	configured, ok := cfg.Sources[r.Source]
	if !ok {
		return nil, fmt.Errorf("source %q is no longer configured, so the keys of its requests are unknown", r.Source)
	}
	source, err := process.Source(cfg, providers, r.Source)
	if err != nil {
		return nil, err
	}
	file := &File{
		Provider: configured.Provider, Options: configured.Options, Method: r.Method, URL: source.CalledURL(r.Query),
		Headers: r.Header, Body: r.Body,
		NowUnix: float64(r.ReceivedAt.UnixMicro()) / 1e6, ToleranceSeconds: configured.Tolerance.Seconds(),
		Claimed: []Claim{},
	}
	if r.Truncated { // no secret can verify an incomplete body
		return file, nil
	}
	for _, e := range source.Verifier.Events(&webhook.Request{Method: r.Method, URL: file.URL, Header: r.Header,
		Body: r.Body, ReceivedAt: r.ReceivedAt, Kept: true}) {
		file.Claimed = append(file.Claimed, Claim{e.ID, e.Type})
	}
	return file, nil
}

// Reverifier returns a function that verifies a stored request with the configured source.
func Reverifier(cfg *config.Config, providers map[string]webhook.Provider) func(context.Context,
	rejection.Rejection) (receipt.Delivery, error) {
	return func(_ context.Context, r rejection.Rejection) (receipt.Delivery, error) {
		if _, ok := cfg.Sources[r.Source]; !ok {
			return receipt.Delivery{}, fmt.Errorf("source %q is not configured any more", r.Source)
		}
		source, err := process.Source(cfg, providers, r.Source)
		if err != nil {
			return receipt.Delivery{}, err
		}
		d, err := source.Readmit(&webhook.Request{
			Method: r.Method, URL: "?" + r.Query, Header: r.Header, Body: r.Body, ReceivedAt: r.ReceivedAt,
		})
		var refused *webhook.Error
		if errors.As(err, &refused) {
			if diagnoser, failed := process.NewDiagnoser(cfg, providers); failed == nil {
				if found := diagnoser.Diagnose(r.Source,
					&webhook.Request{Method: r.Method, URL: source.CalledURL(r.Query), Header: r.Header,
						Body: r.Body, ReceivedAt: r.ReceivedAt, Kept: true}, refused); len(found.Findings) > 0 &&
					found.String() != refused.Detail {
					return d, fmt.Errorf("%w (%s)", err, found)
				}
			}
		}
		return d, err
	}
}
