package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v76"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/endpoint"
)

// EndpointWatch compares the configuration of a source with its webhook endpoint at the provider. API and Source are
// required.
type EndpointWatch struct {
	API    *stripe.Client
	Source string
	// URL is the URL of the endpoint. It is empty if the configuration contains no URL.
	URL string
	// Thin is set if the source's endpoint sends thin events. Stripe lists such an endpoint as an event destination.
	Thin bool
	// Mode is the mode of the source. Empty means both modes.
	Mode string
	// Types lists the event types that the source's workflows handle. Wanted reports whether a type is handled or
	// relayed.
	Types  []string
	Wanted func(eventType string) bool
}

// enabled is the status of an active endpoint. everyType is the wildcard in an endpoint's list of event types.
const (
	enabled   = "enabled"
	everyType = "*"
)

// findings collects the findings, at most one of each kind.
type findings []endpoint.Finding

func (f *findings) add(kind endpoint.Kind, format string, args ...any) {
	says := fmt.Sprintf(format, args...)
	if i := slices.IndexFunc(*f, func(a endpoint.Finding) bool { return a.Kind == kind }); i >= 0 {
		(*f)[i].Message += "; " + says
		return
	}
	*f = append(*f, endpoint.Finding{Kind: kind, Message: says})
}

// about adds a subject to the finding of the kind.
func (f findings) about(kind endpoint.Kind, subject string) {
	i := slices.IndexFunc(f, func(a endpoint.Finding) bool { return a.Kind == kind })
	if of := &f[i]; of.About == "" {
		of.About = subject
	} else if !slices.Contains(strings.Split(of.About, ","), subject) {
		of.About += "," + subject
	}
}

// Find reads the endpoints from the provider and returns the problems of the source's endpoint.
func (w *EndpointWatch) Find(ctx context.Context) ([]endpoint.Finding, error) {
	var found findings
	list, what := w.API.Endpoints, "webhook endpoints"
	if w.Thin {
		list, what = w.API.Destinations, "event destinations"
	}
	all, err := list(ctx)
	if errors.Is(err, stripe.ErrForbidden) {
		found.add(endpoint.Unread, "the api_key may not read %s: pawl cannot check whether Stripe has enabled it", what)
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the endpoint of %s: %w", w.Source, err)
	}
	ours, which := w.ours(all)
	if len(ours) == 0 {
		found.add(endpoint.Gone, "no endpoint of this account has %s", which)
		return found, nil
	}
	// An account and its connected accounts can have endpoints with the same URL and different event types.
	for _, application := range slices.Sorted(maps.Keys(ours)) {
		same := ours[application]
		on := slices.DeleteFunc(slices.Clone(same), func(e api.WebhookEndpoint) bool { return e.Status != enabled })
		if len(on) == 0 {
			found.add(endpoint.Off, "Stripe has disabled endpoint %s%s: it delivers nothing", same[0].ID, which)
			continue
		}
		for _, e := range on {
			if e.Livemode != (w.Mode == "live") && w.Mode != "" {
				found.add(endpoint.Mode, "endpoint %s%s does not have %s mode, which the source has", e.ID, which,
					w.Mode)
			}
		}
		if !w.Thin { // thin events have no version
			if err := w.versions(ctx, on, which, &found); err != nil {
				return nil, err
			}
		}
		w.types(on, which, &found)
	}
	return found, nil
}

// ours returns the source's endpoints by Connect application. The key is empty for endpoints of the Stripe account
// itself. If it is uncertain whether these endpoints belong to the source, which describes how they were chosen.
func (w *EndpointWatch) ours(all []api.WebhookEndpoint) (ours map[string][]api.WebhookEndpoint, which string) {
	is := func(e api.WebhookEndpoint) bool {
		return strings.TrimSuffix(e.URL, "/") == strings.TrimSuffix(w.URL, "/")
	}
	missing := "the URL " + w.URL
	if w.URL == "" {
		path := "/hooks/" + w.Source
		is = func(e api.WebhookEndpoint) bool {
			u, err := url.Parse(e.URL)
			return err == nil && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), path)
		}
		which = fmt.Sprintf(" (its URL ends in %s; set url of the source to identify the endpoint exactly)", path)
		missing = "a URL that ends in " + path
		if !slices.ContainsFunc(all, is) {
			is = func(api.WebhookEndpoint) bool { return true }
			which = fmt.Sprintf(" (one of %d in this Stripe account; set url of the source to identify the endpoint exactly)", len(all))
		}
	}
	ours = map[string][]api.WebhookEndpoint{}
	for _, e := range all {
		if is(e) {
			ours[e.Application] = append(ours[e.Application], e)
		}
	}
	if len(ours) == 0 {
		return nil, missing
	}
	return ours, which
}

// versions adds a finding for each endpoint with an API version that no parser was tested with.
func (w *EndpointWatch) versions(ctx context.Context, on []api.WebhookEndpoint, which string,
	found *findings) (err error) {
	for _, e := range on {
		version, whose := e.APIVersion, ""
		if version == "" {
			if version, err = w.API.DefaultVersion(ctx); err != nil {
				return err
			}
			whose = ", the account's default"
		}
		if version != "" && !stripe.Tested(version) {
			found.add(endpoint.Version, "endpoint %s%s sends API version %s%s, which pawl was not tested with",
				e.ID, which, version, whose)
			found.about(endpoint.Version, version)
		}
	}
	return nil
}

// types compares the event types that the endpoints of one URL send with the types that the source wants.
func (w *EndpointWatch) types(on []api.WebhookEndpoint, which string, found *findings) {
	sent := map[string]bool{}
	for _, e := range on {
		for _, t := range e.EnabledEvents {
			sent[t] = true
		}
	}
	id := on[0].ID + which
	if sent[everyType] {
		if !w.Wanted(everyType) {
			found.add(endpoint.Ignored, "endpoint %s sends every type; pawl runs %d types and ignores the others", id,
				len(w.Types))
		}
		return
	}
	unsent := slices.DeleteFunc(slices.Clone(w.Types), func(t string) bool { return sent[t] })
	if len(unsent) > 0 {
		found.add(endpoint.Unsent, "endpoint %s does not send types with a flow: %s", id, strings.Join(unsent, ", "))
	}
	ignored := slices.DeleteFunc(slices.Sorted(maps.Keys(sent)), w.Wanted)
	if len(ignored) > 0 {
		found.add(endpoint.Ignored, "endpoint %s sends ignored event types: %s", id, strings.Join(ignored, ", "))
	}
}

// BackfillCommand returns the command that finds the events that were not delivered while the endpoint was disabled.
// The period starts three days before the endpoint was disabled, because Stripe then also stopped its pending
// retries.
func BackfillCommand(e endpoint.Endpoint) string {
	if e.OffSince == nil {
		return "doctor"
	}
	command := "events backfill " + decide.ShellWord(e.Source) + " --from " +
		e.OffSince.Add(-retriedFor).UTC().Format(time.RFC3339)
	if e.OffUntil != nil {
		command += " --to " + e.OffUntil.UTC().Format(time.RFC3339)
	}
	return command
}

// retriedFor is how long Stripe retries a delivery.
const retriedFor = 72 * time.Hour
