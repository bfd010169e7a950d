package groupcommit

// Waiting returns how many requests wait for a flush to begin.
func (c *Committer[Req, Res]) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}
