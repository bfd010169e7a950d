// Package activitiestest contains fakes of outside systems: an HTTP API that remembers idempotency keys, and an SMTP
// server. They listen on real sockets, store each request, and fail when a test requests it. A test can therefore count
// the effects instead of the calls.
package activitiestest
