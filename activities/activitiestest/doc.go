// Package activitiestest has stand-ins for the outside systems that activities talk to: an HTTP API that remembers
// idempotency keys, and an SMTP server. They listen on real sockets, keep each request, and fail on cue, so that a
// test counts effects instead of calls.
package activitiestest
