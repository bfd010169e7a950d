package config

import (
	"fmt"
	"time"
)

// shortestDay is the provider's finest time: with a shorter day, what is days apart would be of one second.
const shortestDay = time.Second

// leastSettle is the least that is waited for an event that is missing: it comes as late as it comes, also where days are
// short.
const leastSettle = 10 * time.Second

func (c *checker) day() {
	d := c.cfg.Day
	switch {
	case d != day && !c.cfg.Dev:
		c.bad("day", "is for pawl dev alone: elsewhere a day has 24 hours", "remove it")
	case d < shortestDay || d > day:
		c.bad("day", fmt.Sprintf("%s is not between %s and 24h", d, shortestDay), "write how long a day lasts, such as 2s")
	}
}

// Lasts returns how long a time of the policy lasts: as long as it says, or less where days are short.
func (c *Config) Lasts(d time.Duration) time.Duration {
	if c.Day == day || c.Day == 0 {
		return d
	}
	return time.Duration(float64(d) / float64(day) * float64(c.Day))
}

// Settles returns how long an event that is missing is waited for. Deliveries take their time, also where days are short.
func (c *Config) Settles() time.Duration {
	return max(c.Lasts(c.Policy.Settle), min(c.Policy.Settle, leastSettle))
}
