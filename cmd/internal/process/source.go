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

// Sources creates the verifiers of all configured sources. It reports all faults in one error.
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

// Source creates one source. config.Load must have checked its provider.
func Source(cfg *config.Config, providers map[string]webhook.Provider, name string) (ingress.Source, error) {
	s := cfg.Sources[name]
	provider := providers[s.Provider]
	settings := cfg.Settings(name)
	verifier, err := provider.New(settings)
	if err != nil {
		return ingress.Source{}, fmt.Errorf("sources.%s: %w", name, err)
	}
	relays := len(cfg.DestinationsOf(name)) > 0
	source := ingress.Source{
		Name: name, Provider: provider, Verifier: verifier, Mode: s.Mode,
		BodyLimit:   int64(s.BodyLimit),
		Correlation: correlation(s.Correlation),
		Written: func(eventType string) bool {
			return workflows.Written(s.Provider, eventType) || cfg.FlowOf(name, eventType) != ""
		},
		Wanted: wanted(s, relays, func(eventType string) bool { return cfg.FlowOf(name, eventType) != "" }),
		Relays: relays, Accounts: s.Accounts.Routed, PublicURL: s.URL,
	}
	for _, network := range s.AllowFrom {
		source.AllowFrom = append(source.AllowFrom, network.Prefix)
	}
	return source, nil
}

// correlation parses the setting for the place of the correlation ID in a request.
func correlation(place string) ingress.Correlation {
	pointer, found := strings.CutPrefix(place, "/")
	if !found {
		return ingress.Correlation{Header: place}
	}
	var path []string
	for part := range strings.SplitSeq(pointer, "/") {
		// the escapes of RFC 6901, section 4
		path = append(path, gjson.Escape(strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")))
	}
	return ingress.Correlation{Path: strings.Join(path, ".")}
}

// wanted returns a function that reports whether a source runs an event type. Without an allow-list, the source runs
// all types. With an allow-list, it runs the types on the list that have a flow of pawl or of the configuration. If the
// source relays, it also runs the other types on the list.
func wanted(s config.Source, relays bool, handled func(string) bool) func(string) bool {
	return func(eventType string) bool {
		snapshot := eventType
		if s.Provider == "stripe" { // the list may contain the type of a thin event, or the type of its snapshot event
			snapshot = stripe.SnapshotType(eventType)
		}
		if len(s.Events) > 0 && !slices.Contains(s.Events, eventType) && !slices.Contains(s.Events, snapshot) {
			return false
		}
		return relays || workflows.Written(s.Provider, eventType) || handled(eventType)
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
