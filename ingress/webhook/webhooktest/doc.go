// Package webhooktest contains the tests that every provider must pass: a conformance suite ([Run]), the shared
// signature vectors ([Vectors]) and seeds for the fuzz targets ([OddBodies]).
//
// The suite signs deliveries as the provider does, and then damages them in ways that break receivers in production:
// rotated secrets, several signatures, stale and future clocks, truncated and re-encoded bodies, missing, repeated
// and oversized headers.
package webhooktest
