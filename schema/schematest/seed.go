package schematest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns the seed of a test that generates its input. The seed is fixed unless PAWL_SEED is a number or "fresh".
// Every run of a commit therefore has the same result. If PAWL_SEED is set, Seed logs the seed, so that a failure can
// be repeated.
func Seed(t testing.TB, fixed uint64) uint64 {
	t.Helper()
	text := os.Getenv("PAWL_SEED")
	if text == "" {
		return fixed
	}
	seed := rand.Uint64()
	if text != "fresh" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("PAWL_SEED is %q: want a number or fresh", text)
		}
	}
	t.Logf("PAWL_SEED=%d", seed)
	return seed
}
