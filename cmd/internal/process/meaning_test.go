package process

import (
	"log/slog"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A development world that starts again with another file, or with shorter days, goes by that. Any other world goes by
// what is in force, until somebody switches.
func TestAdopt_FileChanged_DevelopmentAlone(t *testing.T) {
	t.Parallel()
	for name, dev := range map[string]bool{"development": true, "production": false} {
		n := &Node{Config: &config.Config{Dev: dev}, Pool: schematest.New(t), log: slog.New(slog.DiscardHandler)}
		own := BillingPolicy(n.Config)
		before := own
		before.Grace++
		before = before.Sealed()
		if inForce, err := billing.Propose(t.Context(), n.Pool, before, "the run before"); err != nil || inForce != before.Hash() {
			t.Fatalf("%s: %s is in force, %v", name, inForce, err)
		}
		if err := n.propose(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := n.adopt(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := before.Hash()
		if dev {
			want = own.Hash()
		}
		if inForce, err := billing.HashInForce(t.Context(), n.Pool); err != nil || inForce != want {
			t.Errorf("%s: %s is in force, %v; want %s", name, inForce, err, want)
		}
	}
}
