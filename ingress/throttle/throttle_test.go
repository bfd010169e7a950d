package throttle_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/throttle"
)

// Buckets remembers a key without tokens while at most the configured number of other keys is used.
func TestBuckets_ManyKeys_UsedUpIsRemembered(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := throttle.New[int](throttle.Rate{PerSecond: 1, Burst: 2}, 10)
	for range 2 {
		if !b.Allow(0, now) {
			t.Fatal("refused within the burst")
		}
	}
	for key := range 10 {
		if !b.Allow(key+1, now) {
			t.Errorf("key %d pays for another", key+1)
		}
	}
	if b.Allow(0, now) {
		t.Error("a key that has used up its tokens got one more")
	}
	if !b.Allow(0, now.Add(time.Second)) {
		t.Error("a second later there is a token again")
	}
}

func TestBuckets_NoRate_AllowsEverything(t *testing.T) {
	t.Parallel()
	b := throttle.New[string](throttle.Rate{}, 1)
	for range 3 {
		if !b.Allow("key", time.Time{}) {
			t.Error("refused without a rate")
		}
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8:0:1::1": "2001:db8:0:1::", "2001:db8:0:1:2::1": "2001:db8:0:1::", "2001:db8:0:2::1": "2001:db8:0:2::",
	} {
		if got := throttle.Network(netip.MustParseAddr(addr)).String(); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
}
