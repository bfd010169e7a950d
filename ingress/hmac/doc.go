// Package hmac verifies every sender that signs with one HMAC, by configuration, and defines presets.
//
// A source of provider "hmac" describes its sender in options:
//
//	header            the signature's header (required)
//	prefix            the prefix of each signature: sha256=, v0=
//	separator         the separator of several signatures; omitted for a single one
//	hash              sha256, sha512 or sha1
//	encoding          of the signature: hex, base64 or base64url
//	key_encoding      of the secret: text, hex or base64
//	template          the signed string, of literals and {id} {ts} {body} {url} {method}; {url} is the configured
//	                  url of the source, with its query
//	timestamp         the place of the time of sending (see [Place]); timestamp_unit: s, ms, rfc3339
//	id, type, account, object   the places of the envelope's fields
//	acknowledge       the status of the answer, if the sender accepts only one status as success
//	occurred_at       the place of the event's time; occurred_at_unit: rfc3339, s, ms
//
// A source with unsafe or invalid options does not start: for example a template without {body}, an unsigned timestamp,
// or a misspelt option.
//
// The presets [Calendly], [Paddle], [Square], [Typeform] and [WooCommerce] consist of data only. A provider that also
// needs code has its own package, which calls [New]. For example, zoom answers the validation of its endpoint, and meta
// splits batches into events.
package hmac
