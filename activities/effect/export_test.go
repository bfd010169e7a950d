package effect

import "context"

// Enter takes a slot, which must be free.
func (g *Gate) Enter(ctx context.Context) (leave func()) {
	leave, _ = g.enter(ctx, 0)
	return leave
}

// Waiting returns the number of callers that wait for a slot.
func (g *Gate) Waiting() int { return int(g.waiting.Load()) }
