// Package ingress is the public HTTP server that receives deliveries.
//
// It guarantees that an event is committed before its delivery gets a 2xx. The server reads the bytes once and with a
// limit, verifies them, commits the receipts, and then answers. A delivery that is not committed within the deadline
// gets a 503, and the provider retries. The server passes committed events to the dispatcher without waiting. It counts
// rejections in memory and writes the sums later, so a rejection does not wait for the database.
//
// No middleware runs before a source, so nothing changes the bytes, redirects the request, or requires a cookie.
package ingress
