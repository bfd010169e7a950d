package effect

import "context"

// Enter acquires a slot, and fails the test if no slot is free.
func (g *Gate) Enter(ctx context.Context) (leave func()) {
	leave, _ = g.enter(ctx, 0)
	return leave
}

// Waiting returns the number of callers that wait for a slot.
func (g *Gate) Waiting() int { return int(g.waiting.Load()) }
