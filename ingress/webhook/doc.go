// Package webhook defines the types that the ingress and the providers share: the delivery ([Request]), its
// verification ([Verifier]), its contents ([Event]) and the reason of a rejection ([Error]).
//
// It imports no other package of pawl. The author of a provider needs this page and the provider's documentation only.
// A provider exports a [Provider] and passes the conformance suite in webhooktest. Package hmac makes a provider that
// signs with an HMAC, from data alone or as a directory with behaviour of its own.
//
// The order of the calls is a guarantee: Verify reads only the raw bytes, in constant time; Events is called only with
// requests that Verify admitted.
package webhook
