package process

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/workflows"
)

// Sources makes the verifiers of all configured sources. Its error contains every fault.
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

// Source makes one source. Its provider must be known, which config.Load has checked.
func Source(cfg *config.Config, providers map[string]webhook.Provider, name string) (ingress.Source, error) {
	s := cfg.Sources[name]
	provider := providers[s.Provider]
	settings := cfg.Settings(name)
	verifier, err := provider.New(settings)
	if err != nil {
		return ingress.Source{}, fmt.Errorf("sources.%s: %w", name, err)
	}
	source := ingress.Source{
		Name: name, Provider: provider, Verifier: verifier, Mode: s.Mode,
		BodyLimit:   int64(s.BodyLimit),
		Correlation: correlation(s.Correlation),
		Written:     func(eventType string) bool { return workflows.Written(s.Provider, eventType) },
		Wanted:      wanted(s), Relays: len(s.Relay) > 0, Accounts: s.Accounts.Routed, PublicURL: s.URL,
	}
	for _, network := range s.AllowFrom {
		source.AllowFrom = append(source.AllowFrom, network.Prefix)
	}
	return source, nil
}

// correlation returns the place in a source's setting.
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

// wanted returns whether a source runs a type: the types on its allow-list that have a flow and, if the source relays,
// the other types on the list. A source without a list allows all types.
func wanted(s config.Source) func(string) bool {
	return func(eventType string) bool {
		snapshot := eventType
		if s.Provider == "stripe" { // the list names a thin event, or the snapshot event of its type
			snapshot = stripe.SnapshotType(eventType)
		}
		if len(s.Events) > 0 && !slices.Contains(s.Events, eventType) && !slices.Contains(s.Events, snapshot) {
			return false
		}
		return len(s.Relay) > 0 || workflows.Written(s.Provider, eventType)
	}
}

// NewDiagnoser returns a diagnoser for the configured sources.
func NewDiagnoser(cfg *config.Config, providers map[string]webhook.Provider) (*rejected.Diagnoser, error) {
	sources := map[string]rejected.Source{}
	for name, s := range cfg.Sources {
		sources[name] = rejected.Source{Provider: providers[s.Provider], Settings: cfg.Settings(name)}
	}
	return rejected.NewDiagnoser(sources)
}
