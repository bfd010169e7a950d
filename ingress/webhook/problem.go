package webhook

// Problem is the reason why an authentic event cannot be run. [Event].Problem contains a Problem, optionally followed
// by ": " and a detail that never quotes the body. Problems are stored and shown, so never rename them.
type Problem string

// With a problem of the first group, the payload cannot be read, and the hash of the body identifies the event. With a
// problem of the second group, pawl can read the event's ID.
const (
	EmptyBody    Problem = "empty_body"    // no bytes, or white space only
	NotJSON      Problem = "not_json"      // not a JSON document (RFC 8259)
	NotAnObject  Problem = "not_an_object" // JSON, but not an object
	NotAnArray   Problem = "not_an_array"  // JSON, but not an array
	TrailingData Problem = "trailing_data" // there are more bytes after the document
	NotAForm     Problem = "not_a_form"    // the provider sends a form, and the body is not one

	TooDeep           Problem = "too_deep"           // the payload is nested deeper than MaxDepth
	TooManyEvents     Problem = "too_many_events"    // the delivery contains more events than pawl runs
	TooManyKeys       Problem = "too_many_keys"      // an object of the envelope has more than MaxKeys keys
	DuplicateKey      Problem = "duplicate_key"      // an object of the envelope has a key twice
	AmbiguousKey      Problem = "ambiguous_key"      // an object of the envelope has a key in two spellings (id, ID)
	InvalidUTF8       Problem = "invalid_utf8"       // bytes that are not UTF-8
	InvalidUnicode    Problem = "invalid_unicode"    // an escaped surrogate without its other half
	NulCharacter      Problem = "nul_character"      // \u0000, which Postgres cannot store as text
	ByteOrderMark     Problem = "byte_order_mark"    // a U+FEFF precedes a valid document
	MissingEventID    Problem = "missing_event_id"   // the payload lacks the ID that the provider always sends
	InvalidEventID    Problem = "invalid_event_id"   // the ID is not a string, too long, or unprintable
	MissingEventType  Problem = "missing_event_type" // the payload contains no event type
	InvalidEventType  Problem = "invalid_event_type" // the type is too long, an e-mail address, or unprintable
	MissingObject     Problem = "missing_object"     // the event does not contain its object
	UnknownEnvelope   Problem = "unknown_envelope"   // the body is a JSON object, but not an event of the provider
	InvalidOccurredAt Problem = "invalid_occurred_at"
	AmbiguousFields   Problem = "ambiguous_fields"  // the signed text can be split into different fields
	MissingTimestamp  Problem = "missing_timestamp" // the signed body lacks its time of sending
	HeaderDisagrees   Problem = "header_disagrees"  // an unsigned header contradicts the signed body
)
