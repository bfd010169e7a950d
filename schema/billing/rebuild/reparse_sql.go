package rebuild

import "github.com/pawlhq/pawl/schema/billing"

// parsed selects facts f that a parser read from the payload of receipt r. It omits a refund that only its charge
// reports, because that refund is derived from several facts.
const parsed = `f.receipt_id = r.id and f.event_id = r.event_id and f.origin in ('event', 'fetched', 'reread') and f.kind <> 'withheld'
          and f.data -> 'Refund' ->> 'ByCharge' is null`

// payloadsSQL skips receipts that relay an event, and suspected replays.
const payloadsSQL = `
select r.id::text, r.account, r.mode, r.event_id, r.type, r.body_hash, b.body
  from receipts r left join receipt_bodies b on b.receipt_id = r.id
 where r.provider = $1 and ($2 = '' or r.id > nullif($2, '')::uuid) and not r.replayed and r.relay_of = ''
   and ($3::text[] is null or r.id in (select receipt_id from facts where object = any($3) and mode = $4))
   and ($5 = '' or r.type = $5) and ($6::timestamptz is null or r.received_at >= $6)
   and ($7::int is null or exists (select from current_facts f where ` + parsed + ` and f.reader = $7))
   and (exists (select from facts f where ` + parsed + `)
        or exists (select from effects e where e.receipt_id = r.id and e.kind = 'apply-facts' and e.state = 'done'))
 order by r.id limit $8`

const parsedFactsSQL = `
select ` + billing.FactColumns + ` from facts f
 where receipt_id = any($1::uuid[]) and exists (select from receipts r where ` + parsed + `)
   and not exists (select from facts n where ` + sameFact + ` and n.reading <> '' and ` + later + `)
 order by id`

const reparsesSQL = `select count(*) from readings`

const lockReparsesSQL = `select pg_advisory_xact_lock(hashtextextended('readings', 0))`

const recordReparseSQL = `insert into readings (id, reader, who, why) values ($1, $2, $3, $4)`

// sameFact and later compare two versions of one fact.
const (
	sameFact = `n.object = f.object and n.event_id = f.event_id and n.kind = f.kind and n.mode = f.mode
            and n.provider = f.provider and n.provider_account = f.provider_account`
	later = `(n.reader, n.id) > (f.reader, f.id)`
)

const reparsedAccountsSQL = `
select distinct f.mode, coalesce(o.account, '') from facts f
  left join ` + assigned + ` on o.mode = f.mode and (o.id = f.object collate "default" or o.id = f.customer) and o.account <> ''
 where f.reading = $1 and f.reading <> ''
 order by 1, 2`
