package webhook

// Identity says what identifies an event: which deliveries are one.
type Identity string

// The kinds of identity. If the signature leaves out the ID, the account or the mode, somebody who holds a delivery can
// send its bytes under others: the same bytes under another ID are then a suspected replay.
const (
	// ByID says that the signature covers the ID. Deliveries of one ID are one event, also with other bytes.
	ByID Identity = "id"
	// ByBytes says that it does not. Other bytes under the same ID are another event.
	ByBytes Identity = "bytes"
	// ByIDOrBytes says that it does not, but the bytes of one event may differ, because the time of sending stands in
	// them; or that it covers the ID, and not the account or mode beside it. Other bytes under the same ID are this
	// event.
	ByIDOrBytes Identity = "id_or_bytes"
)

// Identify says what identifies e: what the event says itself, else the place of its ID, since a body is signed, else
// the contract. If none of them says anything, the bytes identify the event: that takes nothing on trust.
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
