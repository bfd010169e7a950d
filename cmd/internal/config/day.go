package config

import (
	"fmt"
	"time"
)

// shortestDay is the resolution of the provider's times: with a shorter day, events of different days could have the
// same second.
const shortestDay = time.Second

// leastSettle is the shortest wait for a missing event: deliveries take real time even if days are shortened.
const leastSettle = 10 * time.Second

func (c *checker) day() {
	d := c.cfg.Dev.Day
	switch {
	case d != day && !c.cfg.Dev.Enabled:
		c.bad("dev.day", "is only for pawl dev", "remove it")
	case d < shortestDay || d > day:
		c.bad("dev.day", fmt.Sprintf("%s is not between %s and 24h", d, shortestDay),
			"write the length of a day, such as 2s")
	}
}

// Lasts returns the real duration of a duration in the policy. The two differ if days are shortened.
func (c *Config) Lasts(d time.Duration) time.Duration {
	if c.Dev.Day == day || c.Dev.Day == 0 {
		return d
	}
	return time.Duration(float64(d) / float64(day) * float64(c.Dev.Day))
}

// Settles returns the wait for a missing event. It has a minimum, because deliveries take real time even if days are
// shortened.
func (c *Config) Settles() time.Duration {
	return max(c.Lasts(c.Policy.SubscriptionWait), min(c.Policy.SubscriptionWait, leastSettle))
}
