// Package ingress is the public HTTP server that receives deliveries.
//
// Its guarantee comes from the order of its steps: read the bytes once and bounded, verify them, commit the receipts,
// and only then answer 2xx. A delivery that is not committed within the deadline gets a 503, and the provider sends it
// again. Committed events are handed to the dispatcher without waiting. A rejection waits for no database write:
// rejections are summed in memory and written later.
//
// No middleware runs before a source, so nothing changes the bytes, redirects, or requires a cookie.
package ingress
