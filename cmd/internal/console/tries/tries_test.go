package tries

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

var (
	home  = netip.MustParseAddr("198.51.100.1")
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// guess makes n attempts, and returns how many passwords were compared.
func guess(t *Tries, n int, name string, from netip.Addr, at time.Time) (compared int) {
	for range n {
		if a, _ := t.Begin(at, name, from); a != nil {
			compared++
		}
	}
	return compared
}

func TestTries_Limits(t *testing.T) {
	t.Parallel()
	elsewhere := netip.MustParseAddr("203.0.113.7")
	six := netip.MustParseAddr("2001:db8:0:1::1")
	tries := New()
	for _, c := range []struct {
		what      string
		n         int
		name      string
		from      netip.Addr
		after     time.Duration
		compared  int
		networkOf string
	}{
		{what: "a burst at one name", n: 52, name: "ada", from: elsewhere, compared: mostPerName},
		{what: "by a neighbour in the /24", n: 5, name: "ada", from: elsewhere.Next(), compared: 0},
		{what: "at another name", n: 5, name: "bob", from: elsewhere, compared: 5},
		{what: "at many names: the network's limit", n: 30, name: "eve", from: elsewhere, compared: mostPerName},
		{what: "the owner elsewhere", n: 1, name: "ada", from: home, compared: 1},
		{what: "ten minutes later", n: 52, name: "ada", from: elsewhere, after: triesWithin, compared: mostPerName},
		{what: "an IPv6 address", n: 52, name: "cy", from: six, after: triesWithin, compared: mostPerName},
		{what: "its /64", n: 5, name: "cy", from: six.Next(), after: triesWithin, compared: 0},
		{what: "names that no person has", n: 52, name: "uid:0(root)", from: netip.MustParseAddr("192.0.2.1"), after: triesWithin, compared: mostPerName},
	} {
		if got := guess(tries, c.n, c.name, c.from, start.Add(c.after)); got != c.compared {
			t.Errorf("%s: %d of %d are compared, want %d", c.what, got, c.n, c.compared)
		}
	}
}

// All names of one network share a limit, except a name that has signed in from this network before.
func TestTries_Network_OwnerNotAmongThem(t *testing.T) {
	t.Parallel()
	tries := New()
	a, _ := tries.Begin(start, "ada", home)
	a.Succeeded()
	compared := 0
	for i := range 2 * mostPerNetwork {
		compared += guess(tries, 1, fmt.Sprintf("name%d", i), home, start)
	}
	if compared != mostPerNetwork {
		t.Errorf("%d attempts of a network are compared, want %d", compared, mostPerNetwork)
	}
	if guess(tries, 1, "ada", home, start) != 1 {
		t.Error("a name that has signed in from the network waits for the others")
	}
}

// Attempts for one name from many networks are slowed down, except from a network that has signed in with this name.
func TestTries_ManyNetworks_NameIsSlowedAndNotLocked(t *testing.T) {
	t.Parallel()
	tries := New()
	a, _ := tries.Begin(start, "ada", home)
	a.Succeeded()
	compared := 0
	for i := range 100 {
		compared += guess(tries, 1, "ada", netip.AddrFrom4([4]byte{203, 0, byte(i), 1}), start)
	}
	if most := guessesAtOnce; compared > most {
		t.Errorf("%d guesses are compared at once, want at most %d", compared, most)
	}
	if guess(tries, 1, "ada", home, start) != 1 {
		t.Error("the owner's network waits for others")
	}
	if guess(tries, 1, "ada", netip.MustParseAddr("192.0.2.1"), start.Add(time.Second)) != 1 {
		t.Error("another network waits for longer than a second")
	}
}

// The hash for an unknown network is computed concurrently with the hash for a known network.
func TestTries_Places_OwnerDoesNotWaitForStrangers(t *testing.T) {
	t.Parallel()
	tries := New()
	first, _ := tries.Begin(start, "ada", home)
	first.Succeeded()
	stranger, _ := tries.Begin(start, "ada", netip.MustParseAddr("192.0.2.1"))
	if _, err := stranger.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	owner, _ := tries.Begin(start, "ada", home)
	if _, err := owner.Await(t.Context()); err != nil {
		t.Error(err)
	}
}
