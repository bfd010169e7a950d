package config

import (
	"cmp"
	"fmt"
	"time"
)

// Retries say how long the effects of a sink, or of a consumer, are tried before their run parks and a person decides.
type Retries struct {
	// First is the wait after the first failure on the other side, doubled up to Max; default 1s and 10m.
	First time.Duration `yaml:"first"`
	Max   time.Duration `yaml:"max"`
	// For is how long an effect is tried, counted from its first try; default 24h, or the sink's key lifetime where that
	// is less. Trouble of our own (the database is down, a worker died) uses up no tries.
	For time.Duration `yaml:"for"`
}

const (
	retryFirst = time.Second
	retryMax   = 10 * time.Minute
	retryFor   = 24 * time.Hour
)

// setDefaults fills in unset fields. A sink that forgets keys is tried no longer than it remembers them.
func (r *Retries) setDefaults(keyLifetime time.Duration) {
	or(&r.First, retryFirst)
	or(&r.Max, max(retryMax, r.First))
	or(&r.For, min(retryFor, cmp.Or(keyLifetime, retryFor)))
}

func (c *checker) retriesOf(sink string, r Retries, keyLifetime time.Duration) {
	key := sink + ".retries"
	for name, wait := range map[string]time.Duration{".first": r.First, ".max": r.Max, ".for": r.For} {
		if c.written[key+name] && wait <= 0 {
			c.bad(key+name, fmt.Sprintf("is %s", wait), "write a duration such as 2s, or leave it out for the default")
		}
	}
	given := r
	if given.setDefaults(keyLifetime); min(given.First, given.Max, given.For) < 0 {
		return
	}
	if given.Max < given.First {
		c.bad(key+".max", fmt.Sprintf("is %s, less than the first wait of %s", given.Max, given.First),
			"write a max that is not less than first")
	}
	if given.For < given.First {
		c.bad(key+".for", fmt.Sprintf("is %s, less than the first wait of %s", given.For, given.First),
			"write a for that is not less than first")
	}
	if keyLifetime > 0 && given.For > keyLifetime {
		c.bad(key+".for", fmt.Sprintf("is %s, and the sink forgets keys after %s", given.For, keyLifetime),
			"write a for that is not more than "+sink+".key_lifetime: a later try could be applied twice")
	}
}
