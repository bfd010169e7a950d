// Package stripe reads what Stripe's payloads say.
//
// [Read] turns an event's body into facts, or says why a person must review it. It is the one way from bytes to facts:
// the object in the event decides what is read, and the event's type says only where the fact stands among others of
// the same second. [ReadObject] does the same with an object that was fetched. [ReadAddress] reads the personal data
// that a letter needs, where the letter is written; no fact holds any.
//
// The package works on raw JSON and not on an SDK's structs: a payload is rendered in the API version of the
// webhook endpoint, and structs of another version decode moved fields as zero values without a
// word (an invoice that looks unpaid, a period that ends in 1970). A reader here knows every place
// where a field has stood, from 2023-10-16 to the releases after 2025-03-31.basil, takes references
// as ID or as expanded object, and returns a [ReviewError] where no known place holds the field.
package stripe
