package doctor

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/endpoint"
	"github.com/pawlhq/pawl/schema/quota"
)

// mendEndpoint maps each kind of problem, except [endpoint.Off], to the recommended action.
var mendEndpoint = map[endpoint.Kind]string{
	endpoint.Gone:    "register it at Stripe, or set `url` of the source to its URL",
	endpoint.Mode:    "set `api_key` and `mode` of the source to those of its endpoint",
	endpoint.Version: "create an endpoint with an API version that pawl was tested with, such as " + stripe.Version,
	endpoint.Unsent:  "add them to the endpoint at Stripe, or list the types that you want as `events` of the source",
	endpoint.Ignored: "remove them from the endpoint at Stripe: each event costs a delivery",
	endpoint.Unread:  "give the key the right to read webhook endpoints, or set `policy.endpoint: off`",
}

// endpoint compares the webhook endpoint at the provider with the configuration of the source.
func (d *Doctor) endpoint(name string) func(context.Context, *findings) error {
	return func(ctx context.Context, f *findings) error {
		api, err := process.StripeAPI(name, d.Config.Sources[name], quota.New(d.Pool))
		if err != nil {
			return err
		}
		found, err := process.EndpointWatch(d.Config, name, api).Find(ctx)
		if err != nil {
			return err
		}
		seen := endpoint.Endpoint{Source: name}
		looked, err := endpoint.All(ctx, d.Pool, []string{name})
		if err != nil {
			return err
		}
		if len(looked) > 0 {
			seen = looked[0]
		}
		command := "`pawl " + source.BackfillCommand(seen) + "`"
		for _, one := range found {
			if one.Kind == endpoint.Off {
				f.add(Fail, name, "fix the cause of the failures, enable the endpoint at Stripe, and list the missing events with "+command,
					"%s", one.Message)
				continue
			}
			f.add(Warn, name, mendEndpoint[one.Kind], "%s", one.Message)
		}
		switch {
		case seen.OffUntil != nil && time.Since(*seen.OffUntil) < stripe.EventsKept:
			f.add(OK, name, "", "the endpoint was disabled until %s: %s lists the missing events",
				seen.OffUntil.Format(time.RFC3339),
				command)
		case len(found) == 0:
			f.add(OK, name, "", "the endpoint at Stripe matches the source")
		}
		return nil
	}
}
