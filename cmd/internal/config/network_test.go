package config_test

import (
	"net/netip"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	for text, inside := range map[string]string{
		"10.0.0.0/8":          "10.1.2.3",
		"10.1.2.3/8":          "10.9.9.9",
		"192.0.2.7":           "192.0.2.7",
		"2001:db8::/32":       "2001:db8::1",
		"::ffff:192.0.2.7":    "192.0.2.7", // in the form that a listener for IPv4 and IPv6 logs
		"::ffff:10.0.0.0/104": "10.1.2.3",
		"::/0":                "2001:db8::1",
	} {
		var n config.Network
		if err := n.UnmarshalText([]byte(text)); err != nil || !n.Contains(netip.MustParseAddr(inside)) {
			t.Errorf("%s is %s, %v; want it to hold %s", text, n, err, inside)
		}
	}
	for _, text := range []string{"", "10.0.0", "10.0.0.0/33", "example.com", "10.0.0.1-10.0.0.9", "fe80::%eth0/64"} {
		var n config.Network
		if err := n.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %s, want a fault", text, n)
		}
	}
}
