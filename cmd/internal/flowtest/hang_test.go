package flowtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// A sink that hangs holds its places and nothing else: every other effect of the same events is done, and every event
// is delivered to the consumer, while not one of the hanging requests has ended.
func TestHangingSink_TakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	crm := newConsumer(t)
	r := newRig(t, func(c *config.Config) {
		relaying(t, c, map[string]*consumer{"crm": crm})
		stripe := c.Sources["stripe"]
		stripe.Relay = []string{"crm"}
		c.Sources["stripe"] = stripe
		neverHasty(c)
		to := c.Consumers["crm"]
		to.Timeout = c.Sinks.Finance.Timeout
		c.Consumers["crm"] = to
	})
	r.fault(`{"service":"finance","next":1000,"mode":"hang_after_accept"}`)
	const invoices = 70 // more than what was shared by all sinks
	for i := range invoices {
		r.receive(purchase(t, fmt.Sprintf("hang-%s-%d", uuid.NewString()[:8], i), "invoice.paid", "starter"))
	}
	done := func(kind string) int {
		return len(r.rows(`select key from effects where kind = $1 and state = 'done'`, kind))
	}
	for _, kind := range []string{"apply-facts", "provision-workspace", "receipt-email", "relay"} {
		r.until(kind+" is done of every event", func() bool { return done(kind) == invoices })
	}
	if crm.calls() != invoices {
		t.Errorf("the consumer was called %d times, want %d", crm.calls(), invoices)
	}
	if hanging, ended := len(r.journal("finance")), done("finance-export"); hanging != r.Config.Sinks.Finance.Places || ended != 0 {
		t.Errorf("finance has %d requests, of which %d have ended; want %d hanging", hanging, ended, r.Config.Sinks.Finance.Places)
	}
}

// neverHasty has every sink wait longer than a test takes: on a crowded machine a mail in time is late, and then in doubt.
func neverHasty(c *config.Config) {
	c.Sinks.Finance.Timeout, c.Sinks.Email.Timeout, c.Sinks.Workspaces.Timeout = 3*time.Minute, 3*time.Minute, 3*time.Minute
}
