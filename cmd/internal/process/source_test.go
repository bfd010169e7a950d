package process

import (
	"net/netip"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

func TestWanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		source  config.Source
		relayed bool
		event   string
		want    bool
	}{
		{"a flow is written", config.Source{Provider: "stripe"}, false, "invoice.paid", true},
		{"no flow", config.Source{Provider: "stripe"}, false, "moon.risen", false},
		{"no flow, relayed", config.Source{Provider: "stripe"}, true, "moon.risen", true},
		{"another provider", config.Source{Provider: "github"}, false, "push", false},
		{"another provider, relayed", config.Source{Provider: "github"}, true, "push", true},
		{"relayed, not on the list", config.Source{Provider: "github", Events: []string{"push"}}, true, "star", false},
		{"relayed, on the list", config.Source{Provider: "github", Events: []string{"push"}}, true, "push", true},
		{"written, not on the list", config.Source{Provider: "stripe", Events: []string{"invoice.payment_succeeded"}}, false, "invoice.paid", false},
	} {
		if got := wanted(c.source, c.relayed, func(string) bool { return false })(c.event); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

// The server uses the allow-list of the configuration.
func TestIngressSource_AllowFrom(t *testing.T) {
	t.Parallel()
	cfg := load(t, "postgres://localhost/none")
	network := netip.MustParsePrefix("192.0.2.0/24")
	source := cfg.Sources["stripe"]
	source.AllowFrom = []config.Network{{Prefix: network}}
	cfg.Sources["stripe"] = source
	made, err := Source(cfg, providers, "stripe")
	if err != nil {
		t.Fatal(err)
	}
	if len(made.AllowFrom) != 1 || made.AllowFrom[0] != network || made.Provider.Name != "stripe" {
		t.Errorf("source %+v", made)
	}
}

// A JSON pointer (RFC 6901) finds its value even if a name contains a dot, a tilde or a slash.
func TestCorrelation(t *testing.T) {
	t.Parallel()
	body := `{"data":{"object":{"order.id":"a","tilde~":"b","sl/ash":"c","list":["d"]}}}`
	for place, want := range map[string]string{"/data/object/order.id": "a", "/data/object/tilde~0": "b", "/data/object/sl~1ash": "c",
		"/data/object/list/0": "d", "/data/object/none": ""} {
		if got := gjson.Get(body, correlation(place).Path).String(); got != want {
			t.Errorf("%s: got %q, want %q", place, got, want)
		}
	}
	if got := correlation("X-Request-Id").Header; got != "X-Request-Id" {
		t.Errorf("the header is %q", got)
	}
}
