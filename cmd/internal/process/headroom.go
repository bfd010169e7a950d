package process

// headroom is memory that is never touched, so that the kernel never gives it: it only makes Go's collector count
// with a larger heap. An ingress has some 10 MiB of live data, and the collector ran whenever as much again had been
// allocated: many times a second under load, for a sixth of the process's CPU time. It costs at most as much real
// memory as it pretends. Unlike GOGC it does not multiply a heap that is large already, as that of a worker with
// thousands of open runs, and unlike GOMEMLIMIT it sets no bound to thrash at.
type headroom []byte

// newHeadroom returns none where the environment tunes the collector itself.
func newHeadroom(env func(string) (string, bool)) headroom {
	if isSet(env, "GOGC") || isSet(env, "GOMEMLIMIT") {
		return nil
	}
	return make(headroom, 24<<20)
}

// isSet reports whether the environment has something to say about name.
func isSet(env func(string) (string, bool), name string) bool {
	value, ok := env(name)
	return ok && value != ""
}
