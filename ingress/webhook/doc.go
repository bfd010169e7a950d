// Package webhook is the vocabulary that the ingress and the providers share: the delivery
// ([Request]), its check ([Verifier]), its contents ([Event]) and the reason of a refusal ([Error]).
//
// It is a leaf: it imports nothing of ours, so that a provider needs to know this page and its
// own document, and nothing else. A provider exports a [Provider] and passes the conformance suite in webhooktest. One
// that signs with an HMAC is made by package hmac: from data alone, or as a directory with behaviour of its own.
//
// The order is fixed and is the guarantee: Verify looks at the raw bytes and nothing else, in
// constant time; Events is only called with a request that Verify admitted.
package webhook
