// Package tries limits the attempts to guess a password of the console.
package tries

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/ingress/throttle"
)

// Tries limits the attempts to guess a password. An attempt is counted before its password is compared, so that a burst
// cannot exceed the limit. A successful sign-in is not counted.
//
//   - A network has mostPerName attempts at one name within triesWithin. A network is a /24 or a /64.
//   - A network has mostPerNetwork attempts at all names. Names that it has signed in with are not counted.
//   - A name has guessesPerSecond attempts by networks that have never signed in with it. This rule slows down attempts
//     from many networks together. It never locks a name, because the network of the owner has its own limit.
//
// Hashes are slow on purpose and take 64 MiB each. One is computed at a time for networks that have signed in with the
// name, and one for all other networks.
type Tries struct {
	mu        sync.Mutex
	byName    *recent[pair]
	byNetwork *recent[netip.Addr]
	guesses   *throttle.Buckets[string]
	known     *simplelru.LRU[pair, struct{}]

	owners, strangers chan struct{}
}

const (
	triesWithin      = 10 * time.Minute
	mostPerName      = 10
	mostPerNetwork   = 30
	guessesPerSecond = 1
	// guessesAtOnce is higher than mostPerName, so that the attempts of one network alone do not delay the owner of the
	// name in another network.
	guessesAtOnce = 2 * mostPerName
	// triesRemembered limits the memory.
	triesRemembered = 10_000
)

// pair is a name and a network that signs in, or tries to, as that name.
type pair struct {
	name    string
	network netip.Addr
}

// New returns counters without attempts.
func New() *Tries {
	known, _ := simplelru.NewLRU[pair, struct{}](triesRemembered, nil) // fails only without a size
	return &Tries{
		byName: newRecent[pair](mostPerName), byNetwork: newRecent[netip.Addr](mostPerNetwork), known: known,
		guesses: throttle.New[string](throttle.Rate{PerSecond: guessesPerSecond, Burst: guessesAtOnce},
			triesRemembered),
		owners: make(chan struct{}, 1), strangers: make(chan struct{}, 1),
	}
}

// Attempt is one try of a password.
type Attempt struct {
	tries *Tries
	pair
	at    time.Time
	owner bool
}

// Begin counts an attempt at name by the network of client. It returns the reason if there were too many, and "" if
// the password may be compared.
func (t *Tries) Begin(now time.Time, name string, client netip.Addr) (a *Attempt, refused string) {
	if decide.CheckName(name) != nil {
		name = "" // no person has such a name, and a long one would take memory
	}
	a = &Attempt{t, pair{name, throttle.Wide(client)}, now, false}
	t.mu.Lock()
	defer t.mu.Unlock()
	a.owner = t.known.Contains(a.pair)
	if !t.byName.take(a.pair, now) {
		return nil, "Too many attempts with this name. Wait ten minutes."
	}
	if a.owner {
		return a, ""
	}
	if !t.byNetwork.take(a.network, now) {
		t.byName.giveBack(a.pair, now)
		return nil, "Too many attempts from your network. Wait ten minutes."
	}
	if !t.guesses.Allow(name, now) {
		t.byName.giveBack(a.pair, now)
		t.byNetwork.giveBack(a.network, now)
		return nil, "Too many attempts with this name from other networks. Try again in a few seconds."
	}
	return a, ""
}

// Await waits until the password may be compared. At most one comparison runs for networks that have signed in with the
// name, and one for all other networks. The caller calls release once.
func (a *Attempt) Await(ctx context.Context) (release func(), err error) {
	turn := a.tries.strangers
	if a.owner {
		turn = a.tries.owners
	}
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Succeeded records that the network has signed in with the name. It clears the counter of the
// network for this name, and subtracts this attempt from the counter of the network for all names.
func (a *Attempt) Succeeded() {
	t := a.tries
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known.Add(a.pair, struct{}{})
	t.byName.at.Remove(a.pair)
	t.byNetwork.giveBack(a.network, a.at)
}

// recent counts the attempts of each key within triesWithin.
type recent[K comparable] struct {
	most int
	at   *simplelru.LRU[K, []time.Time]
}

func newRecent[K comparable](most int) *recent[K] {
	at, _ := simplelru.NewLRU[K, []time.Time](triesRemembered, nil) // fails only without a size
	return &recent[K]{most, at}
}

// take counts an attempt of key. If the maximum number is already counted, take returns false and counts nothing.
func (r *recent[K]) take(key K, now time.Time) bool {
	times, _ := r.at.Get(key)
	times = slices.DeleteFunc(times, func(at time.Time) bool { return now.Sub(at) >= triesWithin })
	taken := len(times) < r.most
	if taken {
		times = append(times, now)
	}
	r.at.Add(key, times)
	return taken
}

// giveBack no longer counts an attempt of key.
func (r *recent[K]) giveBack(key K, at time.Time) {
	times, _ := r.at.Get(key)
	if i := slices.IndexFunc(times, at.Equal); i >= 0 {
		r.at.Add(key, slices.Delete(times, i, i+1))
	}
}
