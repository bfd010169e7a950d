package effect

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema/breaker"
)

func affected(c Call) breaker.Affected { return breaker.Affected{ReceiptID: c.ReceiptID, Mode: c.Mode} }

// affects records that the outage of the sink affects the events. It is called only while the sink is down. It ignores
// errors, because an effect that waits repeats it with each poll. It takes at most a second, because the lease of an
// effect that has failed ends soon.
func (r *Runner) affects(ctx context.Context, g *Gate, events ...breaker.Affected) {
	if r.Breakers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = r.Breakers.Affects(ctx, g.sink, events...)
}
