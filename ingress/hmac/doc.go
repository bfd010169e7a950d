// Package hmac verifies every sender that signs with one HMAC, by configuration, and ships presets.
//
// A source of provider "hmac" describes its sender in options:
//
//	header            the signature's header (required)
//	prefix            what stands before each signature: sha256=, v0=
//	separator         what stands between several signatures; left out for one
//	hash              sha256, sha512 or sha1
//	encoding          of the signature: hex, base64 or base64url
//	key_encoding      of the secret: text, hex or base64
//	template          the signed string, of literals and {id} {ts} {body} {url} {method}; the url is that of the
//	                  source as configured, with its query
//	timestamp         where the time of sending stands (see [Place]); timestamp_unit: s, ms, rfc3339
//	id, type, account, object   where the envelope's fields stand
//	occurred_at       where the time of the fact stands; occurred_at_unit: rfc3339, s, ms
//
// A source that could not authenticate its deliveries does not start: a template without {body}, a
// timestamp that nothing signs, a misspelt option.
//
// The presets are providers that differ in data only: [Calendly], [Paddle], [Square], [Typeform] and [WooCommerce]. A
// provider with behaviour of its own is a package beside this one and made by [New]: zoom answers the validation of its
// endpoint, meta takes batches apart.
package hmac
