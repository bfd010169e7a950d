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

// verifyPage is how many rows are read at once: a trail of any length needs the same memory.
const verifyPage = 500

// pageSQL reads in the order of the IDs, which is that of the chain: a writer takes its ID after it has read the row
// before. Writers that lost a race leave gaps between the IDs.
const pageSQL = `
select id, request_id, at, actor, action, target, reason, before, after, prev_hash, hash
  from operator_actions where id > $1 order by id limit $2`

// ErrBroken says that the chain has been tampered with; the wrapped text names the first bad row.
var ErrBroken = errors.New("audit chain is broken")

// Verify walks the chain in pages. It returns the head, which is the last row's hash in hex and is to be kept
// elsewhere, and the number of rows. kept is the head of an earlier call, or one that was logged; "" for none. The
// error is [ErrBroken] at the first row that does not follow from the one before, and where no row has the hash that
// was kept: then the chain's end was cut off since, or all of it written anew. Verify may or may not see rows that
// are appended meanwhile.
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
		return "", 0, fmt.Errorf("%w: none of its %d rows has the hash %.64q: its end was cut off since, or it was written anew", ErrBroken, rows, kept)
	}
	return hex.EncodeToString(prev), rows, nil
}
