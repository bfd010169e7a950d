package process

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/schematest"
)

func fileIn(pool *pgxpool.Pool, file *config.Config) *ownMeaning {
	log := slog.New(slog.DiscardHandler)
	return &ownMeaning{Operator: &operator.Operator{DB: pool, Audit: audit.New(pool, log)}, config: file, log: log}
}

// A development world that starts again with another file, or with shorter days, goes by that. Any other world goes by
// what is in force, until somebody switches.
func TestAdopt_FileChanged_DevelopmentAlone(t *testing.T) {
	t.Parallel()
	for name, dev := range map[string]bool{"development": true, "production": false} {
		pool := schematest.New(t)
		file := fileIn(pool, &config.Config{Dev: dev})
		own := BillingPolicy(file.config)
		before := own
		before.Grace++
		before = before.Sealed()
		if _, inForce, err := billing.Propose(t.Context(), pool, before, "the run before"); err != nil || inForce != before.Hash() {
			t.Fatalf("%s: %s is in force, %v", name, inForce, err)
		}
		if err := file.adopt(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := before.Hash()
		if dev {
			want = own.Hash()
		}
		if inForce, err := billing.HashInForce(t.Context(), pool); err != nil || inForce != want {
			t.Errorf("%s: %s is in force, %v; want %s", name, inForce, err, want)
		}
	}
}

// A file that only completes the meaning in force brings it into force by itself, once, however many workers start. Any
// other file stays a proposal, and so does one that a person has taken back.
func TestAdopt_FileCompletes_ByItself(t *testing.T) {
	t.Parallel()
	old := func(c *config.Config) {
		c.Policy.AutoApply = 20
		c.Plans.Order = []string{"pro"}
		c.Plans.Features = map[string][]string{"pro": {"api"}}
		c.Plans.Prices = map[string]config.Price{"price_pro": {Plan: "pro"}}
	}
	for name, tt := range map[string]struct {
		tune  func(*config.Config)
		taken bool
		want  string
	}{
		"price": {tune: func(c *config.Config) { c.Plans.Prices["price_new"] = config.Price{Plan: "pro"} },
			want: "pawl: it completes: plans.prices.price_new"},
		"plan": {tune: func(c *config.Config) { c.Plans.Features["team"], c.Plans.Order = nil, []string{"team", "pro"} },
			want: "pawl: it completes: plans.features.team, plans.order"},
		"mapped otherwise": {tune: func(c *config.Config) { c.Plans.Prices["price_pro"] = config.Price{Adds: []string{"api"}} }},
		"price gone":       {tune: func(c *config.Config) { delete(c.Plans.Prices, "price_pro") }},
		"grace too": {tune: func(c *config.Config) {
			c.Plans.Prices["price_new"], c.Policy.Grace = config.Price{Plan: "pro"}, 1
		}},
		"notice": {tune: func(c *config.Config) { c.Policy.Notice = 1 }},
		"off": {tune: func(c *config.Config) {
			c.Plans.Prices["price_new"], c.Policy.AutoApply = config.Price{Plan: "pro"}, 0
		}},
		"taken back": {tune: func(c *config.Config) { c.Plans.Prices["price_new"] = config.Price{Plan: "pro"} }, taken: true},
	} {
		before, after := &config.Config{}, &config.Config{}
		old(before)
		old(after)
		tt.tune(after)
		pool := schematest.New(t)
		first := BillingPolicy(before)
		if tt.taken {
			first = BillingPolicy(after)
		}
		if _, _, err := billing.Propose(t.Context(), pool, first, "the run before"); err != nil {
			t.Fatal(err)
		}
		if tt.taken {
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				return billing.Switch(t.Context(), tx, first.Hash(), BillingPolicy(before), "ada", "back")
			}); err != nil {
				t.Fatal(err)
			}
		}
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				if err := fileIn(pool, after).adopt(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		workers.Wait()
		rows, _ := pool.Query(t.Context(), `select who || ': ' || why from meaning_switches where who not in ('ada', 'the run before')`)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(got) > 1 || (len(got) == 1) != (tt.want != "") || len(got) == 1 && got[0] != tt.want {
			t.Errorf("%s: switched %q, %v; want %q", name, got, err, tt.want)
		}
	}
}
