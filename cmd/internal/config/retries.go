package config

import (
	"cmp"
	"fmt"
	"time"
)

// Retries says how often an effect is tried before its run parks and a person decides.
type Retries struct {
	// Attempts counts the tries that failed on the other side; default 8. Trouble of our own (the
	// database is down, a worker died) does not count.
	Attempts int `yaml:"attempts"`
	// First is the wait after the first failure, doubled up to Max; default 2s and 5m: with eight
	// attempts a sink may be away for four minutes before a person is asked.
	First time.Duration `yaml:"first"`
	Max   time.Duration `yaml:"max"`
}

const (
	retryAttempts = 8
	retryFirst    = 2 * time.Second
	retryMax      = 5 * time.Minute
)

// retries refuses what no retry policy can be made of: an activity would panic over it at the first
// sink that fails.
func (c *checker) retries() {
	r := c.cfg.Retries
	if c.written["retries.attempts"] && r.Attempts < 1 {
		c.bad("retries.attempts", fmt.Sprintf("is %d", r.Attempts), "write 1 or more: the first try counts")
	}
	for key, wait := range map[string]time.Duration{"retries.first": r.First, "retries.max": r.Max} {
		if c.written[key] && wait <= 0 {
			c.bad(key, fmt.Sprintf("is %s", wait), "write a wait such as 2s, or leave it out for the default")
		}
	}
	first, most := cmp.Or(r.First, retryFirst), cmp.Or(r.Max, retryMax)
	if first > 0 && most > 0 && most < first {
		c.bad("retries.max", fmt.Sprintf("is %s, less than the first wait of %s", most, first), "write a max that is not less than first")
	}
}
