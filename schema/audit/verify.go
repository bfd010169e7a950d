package audit

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/pawlhq/pawl/schema"
)

// verifyPage is how many rows are read at once, so that a trail of any length needs the same memory.
const verifyPage = 500

// pageSQL reads the rows in the order of their IDs, which is the order of the chain. A writer reads the newest row
// first, and then gets the ID of its own row. Writers that lost a race leave gaps between the IDs.
const pageSQL = `
select id, request_id, at, actor, issuer, subject, action, target, reason, before, after, arguments, prev_hash, hash
  from operator_actions where id > $1 order by id limit $2`

// ErrBroken means that the chain was tampered with. The error text names the first invalid row.
var ErrBroken = errors.New("audit chain is broken")

// Verify checks the chain in pages. It returns the number of rows and the head: the hash of the last row in hex, to be
// stored elsewhere. kept is a head that was stored before, from an earlier call or from a log, or "". The error is
// [ErrBroken] if a row does not match the row before it. It is also ErrBroken if no row has the hash kept, which means
// that the end of the chain was removed, or that the chain was rewritten. Verify may miss rows that are appended while
// it runs.
func (s *Store) Verify(ctx context.Context, kept string) (head string, rows int, err error) {
	kept = strings.ToLower(kept)
	found := kept == ""
	var prev []byte
	for after := int64(math.MinInt64); ; {
		entries, err := schema.List[entry](ctx, s.pool, "read audit trail", pageSQL, after, s.page)
		if err != nil {
			return "", 0, err
		}
		for _, e := range entries {
			if !bytes.Equal(e.PrevHash, prev) || !bytes.Equal(e.Hash, e.hash()) {
				return "", 0, fmt.Errorf("%w at row %d (%s by %s)", ErrBroken, e.ID, e.Action, e.Actor)
			}
			prev, after = e.Hash, e.ID
			found = found || hex.EncodeToString(e.Hash) == kept
		}
		rows += len(entries)
		if len(entries) < s.page {
			break
		}
	}
	if !found {
		return "", 0, fmt.Errorf("%w: none of its %d rows has the hash %.64q: the end was removed, or the chain was rewritten", ErrBroken, rows, kept)
	}
	return hex.EncodeToString(prev), rows, nil
}
