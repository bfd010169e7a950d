package process

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	sources "github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/quota"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/plan"
)

// fetchTimeout is the time limit for fetching one object. An invoice of 500 lines takes six requests.
const fetchTimeout = 20 * time.Second

// asking configures the retries of a fetch. If the API stays down, a person is notified within an hour, because all
// effects of the event wait.
var asking = effect.Retries{InitialInterval: time.Second, MaxInterval: time.Minute, MaxElapsed: time.Hour}

// objects creates the receiver of the activity that fetches objects.
func (n *Node) objects(effects *effect.Runner, state *billing.Store) (*activities.Objects, error) {
	o := &activities.Objects{
		Effects: effects, Receipts: n.Receipts, Facts: state, APIs: map[string]*stripe.Client{}, Now: time.Now,
		// A fetch changes nothing, so it may be repeated after an attempt without an outcome.
		Policy: effect.Policy{Timeout: fetchTimeout, Gate: n.gates[plan.SinkStripe], Retries: asking, Marks: true},
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

// StripeAPI returns the API client of a source. Its rate limit is shared with all other processes.
func StripeAPI(name string, source config.Source, requests *quota.Store) (*stripe.Client, error) {
	client, err := stripe.NewClient(source.APIKey.Value(), source.APIURL, httpcall.NewClient())
	if err != nil {
		return nil, err
	}
	client.Pace = func(ctx context.Context) error { return requests.Take(ctx, "stripe:"+name, source.APIRateLimit) }
	return client, nil
}

func fetches(c *config.Config) map[string]bool {
	able := map[string]bool{}
	for name, source := range c.Sources {
		able[name] = source.APIKey.Value() != ""
	}
	return able
}

// Watched returns the sources with a key, for background work. It uses at most half of a source's rate limit and leaves
// the other half to waiting events.
func Watched(cfg *config.Config, providers map[string]webhook.Provider, pool *pgxpool.Pool,
	receipts *receipt.Store) (map[string]sources.Watched, error) {
	watched, requests := map[string]sources.Watched{}, quota.New(pool)
	for name, able := range fetches(cfg) {
		if !able {
			continue
		}
		source := cfg.Sources[name]
		api, err := StripeAPI(name, source, requests)
		if err != nil {
			return nil, err
		}
		all := api.Pace
		api.Pace = func(ctx context.Context) error {
			if err := requests.TakeHalf(ctx, "stripe:"+name+":background", source.APIRateLimit); err != nil {
				return err
			}
			return all(ctx)
		}
		gaps, err := Gaps(cfg, providers, name, api, pool, receipts)
		if err != nil {
			return nil, err
		}
		watched[name] = sources.Watched{APISource: decide.APISource{API: api, Mode: string(source.Mode)}, Gaps: gaps,
			Endpoint: EndpointWatch(cfg, name, api)}
	}
	return watched, nil
}

// EndpointWatch returns the check that compares a configured source with its endpoint at the provider.
func EndpointWatch(cfg *config.Config, name string, api *stripe.Client) *sources.EndpointWatch {
	source := cfg.Sources[name]
	w := &sources.EndpointWatch{API: api, Source: name, URL: source.URL, Mode: string(source.Mode),
		Thin: source.Thin(), Wanted: wanted(source, len(cfg.DestinationsOf(name)) > 0,
			func(string) bool { return false })}
	for _, t := range workflows.Types(source.Provider) {
		if sent := stripe.SentAs(t, w.Thin); sent != "" && w.Wanted(t) {
			w.Types = append(w.Types, sent)
		}
	}
	return w
}

// Gaps returns a search for events that the provider has sent to a source but that did not arrive. The caller sets how
// long an event may be late.
func Gaps(cfg *config.Config, providers map[string]webhook.Provider, name string, api *stripe.Client,
	pool *pgxpool.Pool, receipts *receipt.Store) (*sources.Gaps, error) {
	source, err := Source(cfg, providers, name)
	if err != nil {
		return nil, err
	}
	return &sources.Gaps{
		API: api, Source: name, Thin: cfg.Sources[name].Thin(),
		Connected: func(ctx context.Context) ([]string, error) { return Connected(ctx, cfg.Sources[name], pool) },
		Types:     cfg.Sources[name].Events, Filed: source.Filed, Held: receipts.Held, Now: time.Now,
	}, nil
}

// Connected returns the connected accounts that are mapped to accounts for a source, by its configuration or by active
// links.
func Connected(ctx context.Context, s config.Source, pool *pgxpool.Pool) ([]string, error) {
	list := slices.Collect(maps.Keys(s.Accounts.Ours))
	if s.Accounts.Table {
		links, err := billing.Links(ctx, pool)
		if err != nil {
			return nil, err
		}
		for _, l := range links {
			if s.Mode == "" || l.Mode == string(s.Mode) {
				list = append(list, l.Connected)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
