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
	endpoint.Gone:    "register it at Stripe, or write its URL as the source's `url`",
	endpoint.Mode:    "give the source the key and the `mode` of its endpoint",
	endpoint.Version: "make an endpoint in a version that readers were tested with, such as " + stripe.Version,
	endpoint.Unsent:  "add them at Stripe, or list those that you want as the source's `events`",
	endpoint.Ignored: "take them out at Stripe: each costs a delivery",
	endpoint.Unread:  "let the key read webhook endpoints, or set `policy.endpoint: off`",
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
				f.add(Fail, name, "mend why it failed, switch it on at Stripe, and see by "+command+" what never came",
					"%s", one.Says)
				continue
			}
			f.add(Warn, name, mendEndpoint[one.Kind], "%s", one.Says)
		}
		switch {
		case seen.OffUntil != nil && time.Since(*seen.OffUntil) < stripe.EventsKept:
			f.add(OK, name, "", "it was off until %s: %s shows what never came", seen.OffUntil.Format(time.RFC3339),
				command)
		case len(found) == 0:
			f.add(OK, name, "", "Stripe has it as the source wants it")
		}
		return nil
	}
}
