// Package activitiestest contains fakes of external systems: an HTTP API that stores idempotency keys, and an SMTP
// server. They listen on real sockets, store each request, and fail if a test configures a failure. A test can
// therefore count the effects instead of the calls.
package activitiestest
