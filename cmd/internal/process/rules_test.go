package process

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/schematest"
)

func fileIn(pool *pgxpool.Pool, file *config.Config) *fileRules {
	log := slog.New(slog.DiscardHandler)
	return &fileRules{Operator: &decide.Operator{Verbs: operator.Verbs, DB: pool, Audit: audit.New(pool, log)}, config: file, log: log}
}

// A development environment that starts with another file, or with shorter days, uses the new rules. Any other
// environment uses the active rules until a person applies new rules.
func TestAdopt_FileChanged_DevelopmentAlone(t *testing.T) {
	t.Parallel()
	for name, dev := range map[string]bool{"development": true, "production": false} {
		pool := schematest.New(t)
		file := fileIn(pool, &config.Config{Dev: config.Development{Enabled: dev}})
		own := BillingPolicy(file.config)
		before := own
		before.Grace++
		before = before.Sealed()
		if _, active, err := billing.Propose(t.Context(), pool, before, "the run before"); err != nil || active != before.Hash() {
			t.Fatalf("%s: %s is active, %v", name, active, err)
		}
		if err := file.adopt(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := before.Hash()
		if dev {
			want = own.Hash()
		}
		if active, err := billing.ActiveRulesHash(t.Context(), pool); err != nil || active != want {
			t.Errorf("%s: %s is active, %v; want %s", name, active, err, want)
		}
	}
}

// If a file only adds to the active rules, it is applied automatically and once, by any number of workers. Any other
// file stays a proposal, and so does a file that a person has reverted.
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
			c.Plans.Prices["price_new"], c.Policy.PastDueGrace = config.Price{Plan: "pro"}, 1
		}},
		"notice": {tune: func(c *config.Config) { c.Policy.AccessEndingNotice = 1 }},
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
				return billing.ActivateRules(t.Context(), tx, first.Hash(), BillingPolicy(before), "ada", "back")
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
		rows, _ := pool.Query(t.Context(), `select who || ': ' || why from billing_rules_changes where who not in ('ada', 'the run before')`)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(got) > 1 || (len(got) == 1) != (tt.want != "") || len(got) == 1 && got[0] != tt.want {
			t.Errorf("%s: switched %q, %v; want %q", name, got, err, tt.want)
		}
	}
}
