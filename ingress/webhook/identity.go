package webhook

// Identity is the rule that decides which deliveries are the same event.
type Identity string

// If the signature does not cover the ID, the account or the mode, an attacker who captured a delivery can send its
// bytes with other values. The same bytes under another ID are then a suspected replay.
const (
	// ByID: the signature covers the ID. Deliveries with equal IDs are one event, even if their bytes differ.
	ByID Identity = "id"
	// ByBytes: the signature does not cover the ID. Other bytes under the same ID are another event.
	ByBytes Identity = "bytes"
	// ByIDOrBytes: other bytes under the same ID are the same event, although the signature does not cover the whole
	// identity. It applies if the ID is unsigned and the bytes of one event differ because they contain the time of
	// sending. It also applies if the ID is signed, but the account or the mode is not.
	ByIDOrBytes Identity = "id_or_bytes"
)

// Identify returns the identity of e. It prefers e.Identity. Without it, an ID in the body is signed, so the identity
// is ByID; for any other event it is c.Identity. The default is ByBytes, which does not trust unsigned values.
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
