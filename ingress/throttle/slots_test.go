package throttle_test

import (
	"net/netip"
	"testing"

	"github.com/pawlhq/pawl/ingress/throttle"
)

// A sender leaves slots for other senders of its source, and all senders of a source leave slots for other sources.
func TestSlots_OneTakesAll_OthersHaveRoom(t *testing.T) {
	t.Parallel()
	const most = 1024
	s := throttle.NewSlots(most)
	var releases []func()
	fill := func(source string, addr netip.Addr) (n int) {
		for {
			release, ok := s.Take(source, addr)
			if !ok {
				return n
			}
			releases = append(releases, release)
			n++
		}
	}
	first := netip.MustParseAddr("192.0.2.1")
	if n := fill("shop", first); n != most/2+1 {
		t.Errorf("one sender got %d of %d slots, want half", n, most)
	}
	if _, ok := s.Take("shop", netip.MustParseAddr("192.0.2.2")); !ok {
		t.Error("another sender of the source got none")
	}
	for addr, i := first, 0; i < 100; i++ {
		addr = addr.Next()
		fill("shop", addr)
	}
	if _, ok := s.Take("other", first); !ok {
		t.Error("another source got none")
	}
	for _, release := range releases {
		release()
	}
	if n := fill("shop", first); n < most/2 {
		t.Errorf("after all were given back, one sender got %d slots, want half again", n)
	}
}

// A server with one slot can use it.
func TestSlots_One(t *testing.T) {
	t.Parallel()
	s := throttle.NewSlots(1)
	release, ok := s.Take("shop", netip.Addr{})
	if !ok {
		t.Fatal("got none")
	}
	if _, ok := s.Take("shop", netip.Addr{}); ok {
		t.Error("got a second one")
	}
	release()
	if _, ok := s.Take("shop", netip.Addr{}); !ok {
		t.Error("got none after it was given back")
	}
}
