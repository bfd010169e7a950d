package webhook

// Problem names why an authentic event cannot be run. [Event].Problem is one of these, followed
// by ": " and a detail where there is more to say. The names are stored and shown, so they are
// never renamed. No detail repeats what stands in the body.
type Problem string

// The problems that a payload can have. The first group leaves nothing to be read: such an
// event is identified by the hash of its body. The second leaves the event's ID readable.
const (
	EmptyBody    Problem = "empty_body"    // no bytes, or white space only
	NotJSON      Problem = "not_json"      // no JSON document (RFC 8259)
	NotAnObject  Problem = "not_an_object" // JSON, but not the object that the provider sends
	NotAnArray   Problem = "not_an_array"  // JSON, but not the array that the provider sends
	TrailingData Problem = "trailing_data" // something follows the document
	NotAForm     Problem = "not_a_form"    // not the form that the provider sends

	TooDeep           Problem = "too_deep"           // nested deeper than MaxDepth
	TooManyEvents     Problem = "too_many_events"    // a delivery carries more than pawl runs of one
	TooManyKeys       Problem = "too_many_keys"      // an object of the envelope has more than MaxKeys
	DuplicateKey      Problem = "duplicate_key"      // a key stands twice in an object of the envelope
	AmbiguousKey      Problem = "ambiguous_key"      // a key of the envelope stands there in two spellings (id, ID)
	InvalidUTF8       Problem = "invalid_utf8"       // bytes that are not UTF-8
	InvalidUnicode    Problem = "invalid_unicode"    // an escaped surrogate without its other half
	NulCharacter      Problem = "nul_character"      // \u0000, which no Postgres text can hold
	ByteOrderMark     Problem = "byte_order_mark"    // the document is fine behind a U+FEFF
	MissingEventID    Problem = "missing_event_id"   // the provider always sends an ID, and this event has no ID
	InvalidEventID    Problem = "invalid_event_id"   // not a string, too long, or with control characters
	MissingEventType  Problem = "missing_event_type" // nothing to route by
	InvalidEventType  Problem = "invalid_event_type" // as InvalidEventID
	MissingObject     Problem = "missing_object"     // the envelope does not hold its object
	UnknownEnvelope   Problem = "unknown_envelope"   // an object, but not of the provider's kind
	InvalidOccurredAt Problem = "invalid_occurred_at"
	HeaderDisagrees   Problem = "header_disagrees" // an unsigned header says otherwise than the signed body
)
