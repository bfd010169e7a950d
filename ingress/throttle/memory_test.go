package throttle_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/pawlhq/pawl/ingress/throttle"
)

const mib = 1 << 20

// upload describes a body and the steps of its transfer.
type upload struct {
	from, source string
	bytes        int64
	whole        bool
}

func TestMemory_Full_GreediestBodyGoes(t *testing.T) {
	t.Parallel()
	const a, b = "192.0.2.1", "192.0.2.2"
	for name, c := range map[string]struct {
		bodies []upload
		// cut lists the bodies that Memory shed. refused is set if the last body got no memory.
		cut     []int
		refused bool
	}{
		"room is left":                 {bodies: []upload{{a, "s", 7 * mib, false}, {b, "s", 7 * mib, false}}},
		"who has most, its largest":    {bodies: []upload{{a, "s", 4 * mib, false}, {a, "s", 6 * mib, false}, {b, "s", 5 * mib, false}, {b, "s", mib, false}}, cut: []int{1}},
		"the one that asks":            {bodies: []upload{{a, "s", mib, false}, {b, "s", 15 * mib, false}}, cut: []int{1}, refused: true},
		"as many as it takes":          {bodies: []upload{{"192.0.2.3", "s", 7 * mib, true}, {a, "s", 2 * mib, false}, {a, "s", 3 * mib, false}, {a, "s", mib, false}, {a, "s", mib, false}, {a, "s", mib, false}, {b, "s", 4 * mib, false}}, cut: []int{1, 2}},
		"many addresses of one source": {bodies: []upload{{"192.0.2.3", "s", 5 * mib, false}, {"192.0.2.4", "s", 4 * mib, false}, {a, "other", 5 * mib, false}, {b, "other", 2 * mib, false}}, cut: []int{0}},
		"whole bodies are left alone":  {bodies: []upload{{a, "s", 8 * mib, true}, {a, "s", 4 * mib, false}, {b, "s", 3 * mib, false}, {b, "s", mib, false}}, cut: []int{1}},
		"a /64 is one":                 {bodies: []upload{{"2001:db8::1", "s", 5 * mib, false}, {"2001:db8::2", "s", 4 * mib, false}, {b, "s", 6 * mib, false}, {a, "s", mib, false}}, cut: []int{0}},
		"a reserve is for the small":   {bodies: []upload{{a, "s", 15 * mib, true}, {b, "s", 32 << 10, false}}},
		"and for the small alone":      {bodies: []upload{{a, "s", 15 * mib, true}, {b, "s", 128 << 10, false}}, cut: []int{1}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := throttle.NewMemory(16 * mib)
			var cut []int
			var taken bool
			var held []*throttle.Body
			for i, u := range c.bodies {
				var body *throttle.Body
				body = m.Body(netip.MustParseAddr(u.from), u.source, func() {
					cut = append(cut, i)
					go body.Release() // simulates a reader of the body that has stopped
				})
				taken = body.Take(u.bytes)
				if u.whole {
					body.Whole()
				}
				held = append(held, body)
			}
			slices.Sort(cut)
			if !slices.Equal(cut, c.cut) || taken == c.refused {
				t.Errorf("cut %v, taken %t; want %v, %t", cut, taken, c.cut, !c.refused)
			}
			for _, i := range cut {
				if !held[i].Shed() || held[i].Take(1) || held[i].Whole() {
					t.Errorf("%d was cut and continues", i)
				}
			}
			for _, body := range held {
				body.Release()
				body.Release()
			}
			if n := m.Held(); n != 0 {
				t.Errorf("%d bytes are held after all were released", n)
			}
		})
	}
}
