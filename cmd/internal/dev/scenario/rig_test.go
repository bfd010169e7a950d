package scenario_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/dev/scenario"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) {
	schematest.AtOnce(32) // run all tests at once
	schematest.Main(m)
}

const secret = "whsec_0123456789abcdef0123456789abcdef"

// day is the real duration of a simulated day in these tests.
const day = 2 * time.Second

// rig is a complete pawl with the same components as `pawl dev --day 2s`.
type rig struct {
	player scenario.Player
	shop   scenario.Shop
	pool   *pgxpool.Pool
	cfg    *config.Config
	// journals is the directory of the sandbox.
	journals string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	dir := t.TempDir()
	attributes := map[string]string{}
	for _, name := range process.SearchAttributes() {
		attributes[name] = "Keyword"
	}
	temporal, err := dev.StartTemporal(ctx, dev.TemporalOptions{
		Dir: filepath.Join(dir, "temporal"), SearchAttributes: attributes, Sync: dev.SyncNever, Progress: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	world, err := sandbox.Start(ctx, sandbox.Config{Dir: filepath.Join(dir, "sandbox")})
	if err != nil {
		t.Fatal(err)
	}
	listen := schematest.FreeAddr(t)
	for name, content := range map[string]string{
		"database.url":   schematest.NewDSN(t),
		"temporal.toml":  fmt.Sprintf("[profile.default]\naddress = %q\nnamespace = \"default\"\n", temporal.Addr()),
		"secrets/stripe": secret, "secrets/stripe-api": "rk_dev",
		"pawl.yaml": string(template.Dev(template.DevParams{
			// no process listens on these addresses
			Day: day.String(), Ingress: listen, Console: "127.0.0.1:1", Ops: "127.0.0.1:2", WorkerOps: "127.0.0.1:0",
			WorkspacesURL: world.URL(), FinanceURL: world.URL(), SMTP: world.SMTPAddr(), EventsURL: world.URL() + "/events", StripeAPI: world.URL() + "/stripe",
		})),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	providers := map[string]webhook.Provider{"stripe": stripe.Provider}
	cfg, err := config.Load(filepath.Join(dir, "pawl.yaml"), func(string) (string, bool) { return "", false }, providers)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Policy.AccountFrom = "named" // the default of pawl; `pawl dev` without options uses another value
	node, err := process.New(ctx, cfg, providers, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	var running sync.WaitGroup
	for name, run := range map[string]func(context.Context) error{
		"ingress": func(ctx context.Context) error { return node.RunIngress(ctx, ready) }, "worker": node.RunWorker,
	} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		_ = world.Close() // aborts requests in progress
		running.Wait()
		node.Close()
		end, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = temporal.Stop(end)
	})
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("the ingress does not listen")
	}
	shop, err := scenario.ShopOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{
		shop: shop, pool: node.Pool, cfg: cfg, journals: filepath.Join(dir, "sandbox"),
		player: scenario.Player{
			Target: forge.Target{URL: "http://" + listen + "/hooks/stripe", Secret: secret, Sign: stripe.Provider.Sign},
			// if Temporal is busy, a lost start or task takes a minute
			API: world.URL() + "/stripe", Pool: node.Pool, Patience: 3 * time.Minute,
		},
	}
}

// lay sets the times of a scenario that starts now, for an account with this name.
func (r *rig) lay(t *testing.T, s scenario.Scenario, account, version string, now time.Time) scenario.Laid {
	t.Helper()
	l, err := s.Lay(forge.Params{Account: account, APIVersion: version, Seed: "test"}, r.shop, now, day)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
