package flowtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// A sink that hangs occupies only its own slots. All other effects of the same events are done, and every event
// reaches the destination, while all requests to the sink are still open.
func TestHangingSink_TakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	crm := newDestination(t)
	r := newRig(t, func(c *config.Config) {
		relaying(t, c, map[string]*destination{"crm": crm})
		relay(c, "stripe", "crm")
		neverHasty(c)
		to := c.Destinations["crm"]
		to.Timeout = c.Sinks["finance"].Timeout
		c.Destinations["crm"] = to
	})
	r.fault(`{"service":"finance","next":1000,"mode":"hang_after_accept"}`)
	const invoices = 70 // more than the total number of slots
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
		t.Errorf("the destination was called %d times, want %d", crm.calls(), invoices)
	}
	if hanging, ended := len(r.journal("finance")), done("finance-export"); hanging != r.Config.Sinks["finance"].MaxConcurrency || ended != 0 {
		t.Errorf("finance has %d requests, of which %d have ended; want %d hanging", hanging, ended, r.Config.Sinks["finance"].MaxConcurrency)
	}
}

// neverHasty gives every sink a timeout that is longer than a test. On a busy machine, an e-mail could otherwise
// exceed its timeout and become uncertain.
func neverHasty(c *config.Config) {
	c.Sinks["finance"].Timeout, c.Sinks["email"].Timeout, c.Sinks["workspaces"].Timeout = 3*time.Minute, 3*time.Minute, 3*time.Minute
}
