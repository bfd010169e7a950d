// Package webhook defines the types that the ingress and the providers share: the delivery ([Request]), its
// verification ([Verifier]), its contents ([Event]) and the reason of a rejection ([Error]).
//
// It imports no other package of pawl. To write a provider, you need only the documentation of this package and of the
// provider. The package of a provider exports a [Provider] and passes the conformance suite in webhooktest. If the
// provider signs with an HMAC, package hmac makes the [Provider] from a description of the scheme.
//
// The order of the calls is a guarantee: Verify reads only the raw bytes, in constant time; Events is called only with
// requests that Verify admitted.
package webhook
