// Package activitiestest contains fakes of outside systems: an HTTP API that remembers idempotency keys, and an SMTP
// server. They listen on real sockets, store each request, and fail on request, so that a test counts effects instead
// of calls.
package activitiestest
