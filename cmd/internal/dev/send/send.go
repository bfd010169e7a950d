// Package send signs events with the scheme of a configured source and posts them to this source.
package send

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Order describes the events to send and their source.
type Order struct {
	forge.Params

	// Source is the name of the source. If it is empty, ProviderName selects the only source of a provider.
	Source, ProviderName string
	// Template is the file of a body template. If it is empty, the body has the format of the provider.
	Template string
	// Live sends live-mode events, even if the source has no mode.
	Live  bool
	Count int
}

// Pick returns the name of the selected source.
func (o *Order) Pick(cfg *config.Config) (string, error) {
	names := slices.Sorted(maps.Keys(cfg.Sources))
	if o.Source != "" {
		s, ok := cfg.Sources[o.Source]
		if !ok {
			return "", fmt.Errorf("no source %q is configured; there are: %s", o.Source, strings.Join(names, ", "))
		}
		if o.ProviderName != "" && o.ProviderName != s.Provider {
			return "", fmt.Errorf("source %s is of provider %s, not %s", o.Source, s.Provider, o.ProviderName)
		}
		return o.Source, nil
	}
	fit := slices.DeleteFunc(names, func(name string) bool { return cfg.Sources[name].Provider != o.ProviderName })
	switch len(fit) {
	case 0:
		return "", fmt.Errorf("no source of provider %q is configured", o.ProviderName)
	case 1:
		return fit[0], nil
	}
	return "", fmt.Errorf("several sources of provider %s are configured; choose one with --source: %s", o.ProviderName,
		strings.Join(fit, ", "))
}

// Target returns the URL and the key for the events of a source. An empty url means the configured ingress, an empty
// keyFile the configured secret.
func Target(cfg *config.Config, providers map[string]webhook.Provider, name, url, keyFile string) (forge.Target,
	error) {
	provider := providers[cfg.Sources[name].Provider]
	if provider.Sign == nil {
		return forge.Target{}, fmt.Errorf("pawl cannot sign as %s does", provider.Name)
	}
	settings := cfg.Settings(name)
	t := forge.Target{URL: url, SignedURL: settings.URL, Options: settings.Options, Sign: provider.Sign}
	if t.URL == "" {
		t.URL = "http://" + config.Reachable(cfg.Ingress.Listen) + "/hooks/" + name
	}
	if keyFile != "" {
		key, err := os.ReadFile(keyFile)
		if err != nil {
			return forge.Target{}, fmt.Errorf("--key: %w", err)
		}
		t.Secret = strings.TrimSpace(string(key))
		return t, nil
	}
	i := slices.IndexFunc(settings.Secrets, func(s webhook.Secret) bool { return s.Active(time.Now()) })
	if len(settings.Secrets) == 0 {
		return forge.Target{}, fmt.Errorf("source %s has no secret to sign with: give the private key with --key FILE",
			name)
	}
	if i < 0 {
		return forge.Target{}, fmt.Errorf("no secret of source %s is active now", name)
	}
	t.Secret = settings.Secrets[i].Value
	if provider.Contract.VerifiesOnly(t.Secret) {
		return forge.Target{}, fmt.Errorf("%s signs with a private key, and secret %s of source %s can only verify: give the private key with --key FILE",
			provider.Name, settings.Secrets[i].Label, name)
	}
	return t, nil
}

// Events creates the events. With a seed and a count, each event belongs to a separate purchase.
func (o *Order) Events(providers map[string]webhook.Provider, s config.Source) ([]forge.Event, error) {
	template := ""
	if o.Template != "" {
		content, err := os.ReadFile(o.Template)
		if err != nil {
			return nil, fmt.Errorf("--template: %w", err)
		}
		if template = string(content); template == "" {
			return nil, errors.New("--template: the file is empty")
		}
	}
	p := o.Params
	p.Provider, p.Options, p.Live = providers[s.Provider], s.Options, o.Live || s.Mode == webhook.Live
	events := make([]forge.Event, o.Count)
	for i := range events {
		if p.Seed != "" && i > 0 {
			p.Seed = fmt.Sprintf("%s-%d", o.Seed, i+1)
		}
		e, err := forge.New(p, template)
		if err != nil {
			return nil, err
		}
		events[i] = e
	}
	return events, nil
}

// Result is the output of `pawl send --json`.
type Result struct {
	Sent int `json:"sent"`
	// Statuses counts the answers by HTTP status. "error" counts requests without an answer.
	Statuses map[string]int `json:"statuses"`
	Events   []*Event       `json:"events"`
}

// Event is one sent event with its answers in order.
type Event struct {
	EventID  string   `json:"event_id"`
	Type     string   `json:"type"`
	Statuses []string `json:"statuses"`
}

// Expect lists the events before they are sent, with the IDs that the receiver will derive.
func Expect(ctx context.Context, verifier webhook.Verifier, target forge.Target, events []forge.Event) (*Result,
	map[string]*Event, error) {
	result := &Result{Statuses: map[string]int{}}
	byID := make(map[string]*Event, len(events))
	for _, e := range events {
		id, err := target.Identify(ctx, verifier, e)
		if err != nil {
			return nil, nil, err
		}
		sent := &Event{EventID: id, Type: e.Type, Statuses: []string{}}
		result.Events, byID[e.ID] = append(result.Events, sent), sent
	}
	return result, byID, nil
}

// Tell records the events at the sandbox's Stripe API before they are sent. It does nothing if the source has no
// api_url.
func Tell(ctx context.Context, s config.Source, events []forge.Event) error {
	if s.APIURL == "" {
		return nil
	}
	return forge.Tell(ctx, s.APIURL, events)
}
