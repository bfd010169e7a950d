package billing

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// FirstToBook returns the first key of an entry that must be booked before another entry, or "". An entry must be
// booked if its effect is unfinished in the ledger, or if the facts require it and its run has not started it. In both
// cases the receipt of the run must be open. FirstToBook ignores entries of receiptID, the receipt of the caller.
//
// If a key ends with a colon, it matches all keys with this prefix: the parts of an object.
func (s *Store) FirstToBook(ctx context.Context, receiptID string, keys []string) (key string, err error) {
	var ends, objects []string
	for _, k := range keys {
		parts, all := strings.CutSuffix(k, ":")
		if ends = append(ends, k+"\x01"); all {
			ends[len(ends)-1] = parts + ";" // ";" follows ":" in ASCII
		}
		objects = append(objects, k[strings.LastIndex(k, ":")+1:])
	}
	return one(ctx, s.db, "whether "+strings.Join(keys, ", ")+" is booked", pgx.RowTo[string], firstToBookSQL, keys,
		ends, objects, receiptID)
}

// firstToBookSQL reads the ledger first. If the ledger does not contain the key, the facts determine whether an entry
// is required. No entry is required for a payment that was imported or that is older than the start of effects. A
// parked run has already tried all of its effects, unless it was cancelled.
const firstToBookSQL = `
with w as (select * from unnest($1::text[], $2::text[], $3::text[]) with ordinality as w(key, till, object, n))
select key from (
    select w.n, e.key
      from w cross join lateral (select key, state, receipt_id from effects where key >= w.key and key < w.till offset 0) e
     where e.state in ('claimed', 'failed', 'uncertain') and exists (
           select from (select e.receipt_id as id
                        union all select a.receipt_id from effect_attempts a where a.key = e.key) tried
            cross join lateral (select status from receipts where id = tried.id offset 0) r
            where tried.id <> $4::uuid and r.status in ('received', 'processing', 'retrying', 'needs_review', 'dead'))
     union all
    select w.n, w.key
      from w
     where not exists (select from effects e where e.key = w.key) and exists (
           select from (select * from facts where object = w.object offset 0) f
            cross join lateral (select status, reason_code from receipts where id = f.receipt_id offset 0) r
            cross join lateral (select f.data -> 'Invoice' as invoice, f.data -> 'Checkout' as checkout) told
            where f.mode = split_part(w.key, ':', 3) and f.origin <> 'import' and f.receipt_id <> $4::uuid
              and (invoice ->> 'Status' in ('open', 'paid', 'void', 'uncollectible')
                   and ((invoice ->> 'Paid')::bigint > 0 or (invoice ->> 'Balance')::bigint <> 0)
                   or checkout ->> 'PaymentStatus' = 'paid' and (checkout ->> 'Amount')::bigint > 0)
              and f.occurred_at >= coalesce((select coalesce(b.at, 'infinity') from effects_from b where b.mode = f.mode), '-infinity')
              and (r.status in ('received', 'processing', 'retrying')
                   or r.status = 'needs_review' and r.reason_code = 'cancelled'))
) first order by n, key limit 1`
