// Package webhook is the vocabulary that the ingress and the providers share: what came in
// ([Request]), how it is checked ([Verifier]), what it says ([Event]) and why it was refused
// ([Error]).
//
// It is a leaf: it imports nothing of ours, so that a provider needs to know this page and its
// own document, and nothing else. A provider is a directory beside this one that exports
//
//	var Provider = webhook.Provider{Name: "…", Contract: webhook.Contract{…}, New: newVerifier, Sign: sign, Sample: sample}
//
// and passes the conformance suite in webhooktest.
//
// The order is fixed and is the guarantee: Verify looks at the raw bytes and nothing else, in
// constant time; Events is only called with a request that Verify admitted.
package webhook
