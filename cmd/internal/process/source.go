package process

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/workflows"
)

// Sources builds every configured source's verifier. It reports every fault.
func Sources(cfg *config.Config, providers map[string]webhook.Provider) (map[string]ingress.Source, error) {
	sources := map[string]ingress.Source{}
	var faults []error
	for name := range cfg.Sources {
		source, err := Source(cfg, providers, name)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		sources[name] = source
	}
	return sources, errors.Join(faults...)
}

// Source builds one source, whose provider config.Load has checked to be known.
func Source(cfg *config.Config, providers map[string]webhook.Provider, name string) (ingress.Source, error) {
	s := cfg.Sources[name]
	provider := providers[s.Provider]
	settings := cfg.Settings(name)
	verifier, err := provider.New(settings)
	if err != nil {
		return ingress.Source{}, fmt.Errorf("sources.%s: %w", name, err)
	}
	source := ingress.Source{
		Name: name, Provider: provider, Verifier: verifier, Secrets: settings.Secrets, Mode: s.Mode,
		BodyLimit:   int64(s.BodyLimit),
		Correlation: correlation(s.Correlation),
		Wanted:      wanted(s), Relays: len(s.Relay) > 0, Accounts: s.Accounts.Routed, PublicURL: s.URL,
	}
	for _, network := range s.AllowFrom {
		source.AllowFrom = append(source.AllowFrom, network.Prefix)
	}
	return source, nil
}

// correlation is the place that a source's setting names.
func correlation(place string) ingress.Correlation {
	pointer, found := strings.CutPrefix(place, "/")
	if !found {
		return ingress.Correlation{Header: place}
	}
	var path []string
	for part := range strings.SplitSeq(pointer, "/") {
		// RFC 6901, section 4
		path = append(path, gjson.Escape(strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")))
	}
	return ingress.Correlation{Path: strings.Join(path, ".")}
}

// wanted says which types a source runs: those on its allow-list that have a flow, and the others on the list when
// the source relays. A source without a list allows all types.
func wanted(s config.Source) func(string) bool {
	return func(eventType string) bool {
		if len(s.Events) > 0 && !slices.Contains(s.Events, eventType) {
			return false
		}
		return len(s.Relay) > 0 || workflows.Written(s.Provider, eventType)
	}
}

// NewDiagnoser knows every configured source.
func NewDiagnoser(cfg *config.Config, providers map[string]webhook.Provider) (*rejected.Diagnoser, error) {
	sources := map[string]rejected.Source{}
	for name, s := range cfg.Sources {
		sources[name] = rejected.Source{Provider: providers[s.Provider], Settings: cfg.Settings(name)}
	}
	return rejected.NewDiagnoser(sources)
}
