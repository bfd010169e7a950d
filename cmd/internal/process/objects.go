package process

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/quota"
	"github.com/pawlhq/pawl/workflows"
)

// fetchTimeout bounds the asking for one object: an invoice of 500 lines takes six requests.
const fetchTimeout = 20 * time.Second

// asking are the retries of that: an API that is away for long is told to a person within the hour, since the event
// that it is for waits with all its effects.
var asking = effect.Retries{First: time.Second, Max: time.Minute, For: time.Hour}

// objects makes the receiver of the activity that asks for objects.
func (n *Node) objects(effects *effect.Runner, state *billing.Store) (*activities.Objects, error) {
	o := &activities.Objects{
		Effects: effects, Receipts: n.Receipts, Facts: state, APIs: map[string]*stripe.Client{}, Now: time.Now,
		// Asking changes nothing: an attempt without an outcome has done nothing.
		Policy: effect.Policy{Timeout: fetchTimeout, Gate: n.gates[workflows.SinkStripe], Retries: asking, Marks: true},
	}
	for name, source := range n.Config.Sources {
		if source.APIKey.Value() == "" {
			continue
		}
		client, err := StripeAPI(name, source, quota.New(n.Pool))
		if err != nil {
			return nil, err
		}
		o.APIs[name] = client
	}
	return o, nil
}

// StripeAPI returns the client of a source's API, whose requests are counted with those of all other processes.
func StripeAPI(name string, source config.Source, requests *quota.Store) (*stripe.Client, error) {
	client, err := stripe.NewClient(source.APIKey.Value(), source.APIURL, activities.NewHTTPClient())
	if err != nil {
		return nil, err
	}
	client.Pace = func(ctx context.Context) error { return requests.Take(ctx, "stripe:"+name, source.APIRate) }
	return client, nil
}

func fetches(c *config.Config) map[string]bool {
	able := map[string]bool{}
	for name, source := range c.Sources {
		able[name] = source.APIKey.Value() != ""
	}
	return able
}
