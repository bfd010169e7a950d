package webhooktest

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Differential compares a verifier with the vendor's own library on deliveries that the test has damaged.
type Differential struct {
	Ours   webhook.Verifier
	Theirs func(*webhook.Request) error
	// Sign makes a valid delivery. It may vary its values (clock, ID).
	Sign func(*rand.Rand) *webhook.Request
	// Headers are the headers to damage, for example by inserting Fragments.
	Headers   []string
	Fragments []string
	// Stricter and Laxer name the intended differences: in Stricter, pawl rejects a request that the library admits;
	// in Laxer, the reverse. Each function reports whether its difference can explain the two verdicts on a request.
	// Run fails if a difference never occurs.
	Stricter, Laxer map[string]func(*webhook.Request) bool
	Rounds          int
}

// Run damages Rounds deliveries, from a fixed seed, and fails if the two verdicts differ and no intended difference
// explains it.
func (d Differential) Run(t *testing.T) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	met := map[string]int{}
	admitted, refused := 0, 0
	for range d.Rounds {
		r := d.Sign(rnd)
		d.spoil(rnd, r)
		_, ours := d.Ours.Verify(r)
		theirs := d.Theirs(r)
		differences := d.Stricter
		switch {
		case ours == nil && theirs == nil:
			admitted++
			continue
		case ours != nil && theirs != nil:
			refused++
			continue
		case ours == nil:
			differences = d.Laxer
		}
		explained := false
		for name, explains := range differences {
			if explains(r) {
				met[name]++
				explained = true
			}
		}
		if !explained {
			t.Errorf("no intended difference explains it: ours %v, theirs %v\nheaders %q\nbody %q", ours, theirs,
				r.Header, r.Body)
		}
	}
	if admitted < d.Rounds/50 || refused < d.Rounds/50 {
		t.Errorf("both admit %d and refuse %d of %d: the comparison shows nothing", admitted, refused, d.Rounds)
	}
	for _, differences := range []map[string]func(*webhook.Request) bool{d.Stricter, d.Laxer} {
		for name := range differences {
			if met[name] == 0 {
				t.Errorf("the difference %q never occurred", name)
			}
		}
	}
	t.Logf("%d rounds: both admit %d, both refuse %d, differences %v", d.Rounds, admitted, refused, met)
}

// spoil changes a header or the body of r, or leaves r unchanged.
func (d Differential) spoil(rnd *rand.Rand, r *webhook.Request) {
	r.Header = r.Header.Clone()
	if rnd.IntN(8) == 0 && len(r.Body) > 0 {
		r.Body = bytes.Clone(r.Body)
		r.Body[rnd.IntN(len(r.Body))] ^= byte(1 << rnd.IntN(8))
	}
	for range rnd.IntN(3) {
		name := http.CanonicalHeaderKey(d.Headers[rnd.IntN(len(d.Headers))])
		if values := r.Header[name]; len(values) > 0 {
			r.Header[name] = []string{d.spoilText(rnd, values[0])}
		}
	}
}

func (d Differential) spoilText(rnd *rand.Rand, s string) string {
	at := rnd.IntN(len(s) + 1)
	switch rnd.IntN(8) {
	case 0:
		return s[:at]
	case 1:
		return s[:at] + s[min(at+1, len(s)):]
	case 2:
		return s[:at] + string(rune('!'+rnd.IntN(90))) + s[min(at+1, len(s)):]
	case 3:
		return strings.ToUpper(s)
	case 4:
		return s[:at] + d.fragment(rnd) + s[at:]
	case 5:
		return d.fragment(rnd) + s
	case 6:
		return s + d.fragment(rnd)
	}
	fragment := d.fragment(rnd)
	separators := []string{",", " ", "=", "\n", ";", ", "}
	parts := []string{s, fragment}
	if rnd.IntN(2) == 0 {
		slices.Reverse(parts)
	}
	return strings.Join(parts, separators[rnd.IntN(len(separators))])
}

func (d Differential) fragment(rnd *rand.Rand) string { return d.Fragments[rnd.IntN(len(d.Fragments))] }
