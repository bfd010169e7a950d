package config

import (
	"cmp"
	"fmt"
	"time"
)

// Retries say how long the effects of a sink, or of a consumer, are tried before their run parks and a person decides.
type Retries struct {
	// First is the wait after the first failure on the other side, doubled up to Max; default 10m.
	First time.Duration `yaml:"first" default:"1s" min:"1ns"`
	Max   time.Duration `yaml:"max" min:"1ns"`
	// For is how long an effect is tried, counted from its first try; default 24h, or the sink's key lifetime where
	// that is less. Trouble of our own (the database is down, a worker died) uses up no tries.
	For time.Duration `yaml:"for" min:"1ns"`
}

const (
	retryMax = 10 * time.Minute
	retryFor = 24 * time.Hour
)

// setDefaults fills in the times that depend on others. A sink that forgets keys is tried no longer than it remembers
// them.
func (r *Retries) setDefaults(keyLifetime time.Duration) {
	or(&r.Max, max(retryMax, r.First))
	or(&r.For, min(retryFor, cmp.Or(keyLifetime, retryFor)))
}

func (r Retries) check(c *checker, sink string, keyLifetime time.Duration) {
	key := sink + ".retries"
	if min(r.First, r.Max, r.For) < 0 {
		return
	}
	if r.Max < r.First {
		c.bad(key+".max", fmt.Sprintf("is %s, less than the first wait of %s", r.Max, r.First),
			"write a max that is not less than first")
	}
	if r.For < r.First {
		c.bad(key+".for", fmt.Sprintf("is %s, less than the first wait of %s", r.For, r.First),
			"write a for that is not less than first")
	}
	if keyLifetime > 0 && r.For > keyLifetime {
		c.bad(key+".for", fmt.Sprintf("is %s, and the sink forgets keys after %s", r.For, keyLifetime),
			"write a for that is not more than "+sink+".key_lifetime: a later try could be applied twice")
	}
}
