// Package stripe reads what Stripe's payloads say.
//
// It works on raw JSON and not on an SDK's structs: a payload is rendered in the API version of the
// webhook endpoint, and structs of another version decode moved fields as zero values without a
// word (an invoice that looks unpaid, a period that ends in 1970). A reader here knows every place
// where a field has stood, from 2023-10-16 to the releases after 2025-03-31.basil, takes references
// as ID or as expanded object, and returns a [FieldError] where no known place holds the field.
package stripe
