package webhook

// Problem names why an authentic event cannot be run. [Event].Problem is one of these, optionally followed by ": " and
// a detail. The names are stored and shown, so they are never renamed. A detail never quotes the body.
type Problem string

// The problems of a payload. With a problem of the first group, the payload cannot be read and the hash of the body
// identifies the event. With one of the second, the event's ID can be read.
const (
	EmptyBody    Problem = "empty_body"    // no bytes, or white space only
	NotJSON      Problem = "not_json"      // not a JSON document (RFC 8259)
	NotAnObject  Problem = "not_an_object" // JSON, but not the object that the provider sends
	NotAnArray   Problem = "not_an_array"  // JSON, but not the array that the provider sends
	TrailingData Problem = "trailing_data" // bytes follow the document
	NotAForm     Problem = "not_a_form"    // not the form that the provider sends

	TooDeep           Problem = "too_deep"           // nested deeper than MaxDepth
	TooManyEvents     Problem = "too_many_events"    // a delivery contains more events than pawl runs
	TooManyKeys       Problem = "too_many_keys"      // an object of the envelope has more than MaxKeys
	DuplicateKey      Problem = "duplicate_key"      // an object of the envelope has a key twice
	AmbiguousKey      Problem = "ambiguous_key"      // an object of the envelope has a key in two spellings (id, ID)
	InvalidUTF8       Problem = "invalid_utf8"       // bytes that are not UTF-8
	InvalidUnicode    Problem = "invalid_unicode"    // an escaped surrogate without its other half
	NulCharacter      Problem = "nul_character"      // \u0000, which no Postgres text can hold
	ByteOrderMark     Problem = "byte_order_mark"    // the document is fine behind a U+FEFF
	MissingEventID    Problem = "missing_event_id"   // the provider always sends an ID, but not here
	InvalidEventID    Problem = "invalid_event_id"   // not a string, too long, or with control characters
	MissingEventType  Problem = "missing_event_type" // nothing to route by
	InvalidEventType  Problem = "invalid_event_type" // too long, an address, or with control characters
	MissingObject     Problem = "missing_object"     // the envelope does not hold its object
	UnknownEnvelope   Problem = "unknown_envelope"   // an object, but not an envelope of the provider
	InvalidOccurredAt Problem = "invalid_occurred_at"
	AmbiguousFields   Problem = "ambiguous_fields"  // the signed text can be split into different fields
	MissingTimestamp  Problem = "missing_timestamp" // the signed body lacks its time of sending
	HeaderDisagrees   Problem = "header_disagrees"  // an unsigned header contradicts the signed body
)
