package effect

import "context"

// Enter takes a place that must be free.
func (g *Gate) Enter(ctx context.Context) (leave func()) {
	leave, _ = g.enter(ctx, 0)
	return leave
}

// Waiting is how many wait for a place.
func (g *Gate) Waiting() int { return int(g.waiting.Load()) }
