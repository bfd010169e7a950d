// Package ingress is the public HTTP server that takes deliveries.
//
// The order of its work is its guarantee: the bytes are read once and bounded, verified, committed as receipts, and
// only then answered with 2xx. A delivery that cannot be committed within the deadline is answered with 503 and comes
// again. A committed event is handed over for dispatch without waiting for it. No rejection waits for a write:
// rejections are summed in memory, and kept off the request's path.
//
// Nothing stands in front of a source that could change the bytes, redirect, or ask for a cookie.
package ingress
