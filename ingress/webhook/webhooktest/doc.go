// Package webhooktest is what every provider has to pass: a conformance suite ([Run]), the
// shared signature vectors ([Vectors]) and seeds for the fuzz targets ([OddBodies]).
//
// The suite signs deliveries as the provider does and then spoils them in the ways that break
// receivers in the field: rotated secrets, several signatures, stale and future clocks,
// truncated and re-encoded bodies, missing, repeated and oversized headers.
package webhooktest
