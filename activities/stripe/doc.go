// Package stripe parses Stripe's payloads and is the client of its API.
//
// [Read] parses the body of an event into facts, or returns the reason why a person must review it. The type of the
// object selects the parser. The type of the event only orders facts of the same second. [ReadObject] does the same for
// a fetched object. [ReadAddress] reads the personal data that an e-mail needs; facts contain none.
//
// The package parses raw JSON instead of an SDK's structs: a payload has the API version of the webhook endpoint, and
// structs of another version silently decode moved fields as zero values (an invoice that looks unpaid, a period that
// ends in 1970). A parser of this package searches every location that a field had from API version 2023-10-16 to the
// releases after 2025-03-31.basil. It accepts references as IDs or expanded objects. If no known location contains a
// required field, it returns a [ReviewError].
package stripe
