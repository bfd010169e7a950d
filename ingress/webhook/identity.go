package webhook

// Identity is how an event is identified: which deliveries count as one event.
type Identity string

// The kinds of identity. If the signature does not cover the ID, the account or the mode, the holder of a delivery can
// send its bytes under other values. The same bytes under another ID are then a suspected replay.
const (
	// ByID: the signature covers the ID. Deliveries with equal IDs are one event, even if their bytes differ.
	ByID Identity = "id"
	// ByBytes: the signature does not cover the ID. Other bytes under the same ID are another event.
	ByBytes Identity = "bytes"
	// ByIDOrBytes: the signature does not cover the ID, and the bytes of one event may differ because they contain the
	// time of sending; or it covers the ID but not the account or mode beside it. Other bytes under the same ID are the
	// same event.
	ByIDOrBytes Identity = "id_or_bytes"
)

// Identify returns the identity of e: the event's own, else by the place of its ID (an ID in the body is signed), else
// the contract's. The default is ByBytes, which relies on nothing unsigned.
func (c Contract) Identify(e Event) Identity {
	switch {
	case e.Identity != "":
		return e.Identity
	case e.IDOrigin == FromBody:
		return ByID
	case c.Identity != "":
		return c.Identity
	}
	return ByBytes
}
