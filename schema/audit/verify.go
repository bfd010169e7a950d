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

// pageSQL reads in the order of the IDs, which is the order of the chain: a writer takes its ID after it has read the
// row before. Writers that lost a race leave gaps between the IDs.
const pageSQL = `
select id, request_id, at, actor, issuer, subject, action, target, reason, before, after, arguments, prev_hash, hash
  from operator_actions where id > $1 order by id limit $2`

// ErrBroken means that the chain was tampered with. The wrapping text names the first invalid row.
var ErrBroken = errors.New("audit chain is broken")

// Verify checks the chain in pages. It returns the number of rows and the head: the hash of the last row in hex, to be
// stored elsewhere. kept is the head of an earlier call or from a log, or "". The error is [ErrBroken] at the first row
// that does not follow from the row before, and if no row has the hash kept: the end of the chain was then removed, or
// the chain was rewritten. Verify may or may not include rows that are appended meanwhile.
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
		return "", 0, fmt.Errorf("%w: none of its %d rows has the hash %.64q: its end was removed, or it was rewritten", ErrBroken, rows, kept)
	}
	return hex.EncodeToString(prev), rows, nil
}
