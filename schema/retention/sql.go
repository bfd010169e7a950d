package retention

import "github.com/pawlhq/pawl/schema"

// Each statement visits at most $2 rows after the cursor $1, deletes the rows among them that are older than $3, and
// returns the next cursor. A row that is kept is skipped by the cursor, so that many kept rows do not make a statement
// slow. Statements with $4 visit the rows of receipts before that ID. Rows that another transaction has locked are left
// to the next run. The commits do not wait for the disk, because the next run repeats a deletion that a crash undoes.

// finished is true if the event of receipt r has ended. It uses a subquery for the reason given at [schema.Handling].
const finished = `r.status = any((select array['processed', 'compensated', 'ignored'])::text[])`

// needed is true if a replay of the same bytes uses the payload of receipt r: the replay has no payload of its own, and
// its payload has not expired. With "offset 0", Postgres looks up single rows and does not read all of them into a hash
// table.
const needed = `r.identity <> 'id' and not r.replayed and exists (
           select from receipts o join receipt_bodies ob on ob.receipt_id = o.id
            where o.provider = r.provider and o.body_hash = r.body_hash and o.identity <> 'id' and o.replayed and ob.body is null
              and (o.id >= $4::uuid or o.updated_at >= now() - interval '14 days'
                   or o.status <> all((select array['processed', 'compensated', 'ignored'])::text[])) offset 0)`

// unlinked is true if the event of receipt r runs as soon as a person answers the open task about its connected
// account.
const unlinked = `r.reason_code = 'account_not_mapped' and exists (
           select from tasks t where t.mode = r.mode and t.kind = 'unknown_account' and t.object = r.account collate "default" and t.state = (select 'open') offset 0)`

// chosen is true if a job still has to process the event of receipt r, for example the job that runs the ignored events
// of a connected account after a person has linked it.
const chosen = `exists (
           select from jobs j join job_items i on i.job = j.id
            where j.state = any((select array['running', 'paused'])::text[]) and i.target = r.id::text collate "C" and i.result = '' offset 0)`

// held is true if effects of the event of receipt r are withheld. Their release needs the payload.
const held = `exists (select from withheld w where w.receipt_id = r.id and w.released_at is null offset 0)`

// payloadsSQL keeps the payload of an event until 14 days after its last change, even if the event is older than $3.
// Facts are stored before an event ends, so a finished event needs its payload only for a replay, a new parse, a job or
// withheld effects. It locks the receipt as well, because a replay or a takeover at the same time changes only the
// receipt.
const payloadsSQL = `
with ` + schema.Lazy + `, page as materialized (
    select receipt_id from receipt_bodies where receipt_id > $1::uuid and receipt_id < $4::uuid order by receipt_id limit $2
), expired as materialized (
    select b.receipt_id from page p join receipts r on r.id = p.receipt_id join receipt_bodies b on b.receipt_id = p.receipt_id
     where ` + finished + ` and r.received_at < now() - $3::interval and r.updated_at < now() - interval '14 days'
       and not (` + needed + `) and not (` + unlinked + `) and not ` + chosen + ` and not ` + held + `
       for no key update of r skip locked for update of b skip locked
), gone as (
    delete from receipt_bodies where receipt_id in (select receipt_id from expired) returning 1
)
select (select count(*) from gone) as deleted, max(receipt_id::text collate "C") as last, count(*) = $2 as more from page cross join lazy`

// redeliveriesSQL stops at the first page without an old row, because the IDs ascend with the time.
const redeliveriesSQL = `
with ` + schema.Lazy + `, page as materialized (
    select id, receipt_id, received_at from redeliveries where id > $1::bigint order by id limit $2
), expired as materialized (
    select p.id from page p join receipts r on r.id = p.receipt_id
     where ` + finished + ` and p.received_at < now() - $3::interval
), gone as (
    delete from redeliveries where id in (select id from expired) returning 1
)
select (select count(*) from gone) as deleted, max(id)::text as last,
       count(*) = $2 and bool_or(received_at < now() - $3::interval) as more
  from page cross join lazy`

// attemptsSQL keeps the attempts of an effect that is not settled: they show whether it may have happened.
const attemptsSQL = `
with ` + schema.Lazy + `, page as materialized (
    select receipt_id from effect_attempts where receipt_id > $1::uuid and receipt_id < $4::uuid order by receipt_id limit $2
), expired as materialized (
    select a.receipt_id, a.id from (select distinct receipt_id from page) p join receipts r on r.id = p.receipt_id
      join effect_attempts a on a.receipt_id = p.receipt_id
     where ` + finished + ` and a.ended_at < now() - $3::interval
       and not exists (select from effects e where e.key = a.key and e.state = any((select array['claimed', 'failed', 'uncertain'])::text[]))
       for update of a skip locked
), gone as (
    delete from effect_attempts a using expired e where a.receipt_id = e.receipt_id and a.id = e.id returning 1
)
select (select count(*) from gone) as deleted, max(receipt_id::text collate "C") as last, count(*) = $2 as more from page cross join lazy`

const runsSQL = `
with ` + schema.Lazy + `, page as materialized (
    select receipt_id from runs where receipt_id > $1::uuid and receipt_id < $4::uuid order by receipt_id limit $2
), expired as materialized (
    select n.workflow_id, n.run_id from (select distinct receipt_id from page) p join receipts r on r.id = p.receipt_id
      join runs n on n.receipt_id = p.receipt_id
     where ` + finished + ` and n.closed_at < now() - $3::interval
       for update of n skip locked
), gone as (
    delete from runs n using expired e where n.workflow_id = e.workflow_id and n.run_id = e.run_id returning 1
)
select (select count(*) from gone) as deleted, max(receipt_id::text collate "C") as last, count(*) = $2 as more from page cross join lazy`

const interventionsSQL = `
with ` + schema.Lazy + `, page as materialized (
    select receipt_id from interventions where receipt_id > $1::uuid and receipt_id < $4::uuid order by receipt_id limit $2
), expired as materialized (
    select i.workflow_id, i.run_id, i.what from (select distinct receipt_id from page) p join receipts r on r.id = p.receipt_id
      join interventions i on i.receipt_id = p.receipt_id
     where ` + finished + ` and i.at < now() - $3::interval
), gone as (
    delete from interventions i using expired e where i.workflow_id = e.workflow_id and i.run_id = e.run_id and i.what = e.what returning 1
)
select (select count(*) from gone) as deleted, max(receipt_id::text collate "C") as last, count(*) = $2 as more from page cross join lazy`

// publishedSQL keeps the changes of access, because they are the history of an account. It keeps events without
// flows_at, because a flow may still have to receive them.
const publishedSQL = `
with ` + schema.Lazy + `, page as materialized (
    select id, receipt_id, created_at from outbox where id > $1::bigint order by id limit $2
), expired as materialized (
    select o.id from page p join outbox o on o.id = p.id
     where o.published_at < now() - $3::interval and o.type <> 'access.changed' and o.flows_at is not null
       and not exists (select from receipts r where r.id = o.receipt_id and not (` + finished + `))
       for update of o skip locked
), gone as (
    delete from outbox where id in (select id from expired) returning 1
)
select (select count(*) from gone) as deleted, max(id)::text as last,
       count(*) = $2 and bool_or(created_at < now() - $3::interval) as more
  from page cross join lazy`

// ended is true if job j has ended and is older than $3. There are few jobs, so that no index is needed.
const ended = `j.state in ('finished', 'cancelled') and j.finished_at < now() - $3::interval`

const jobItemsSQL = `
with ` + schema.Lazy + `, expired as materialized (
    select i.job, i.target from jobs j join job_items i on i.job = j.id where ` + ended + ` and i.job > $1 limit $2
       for update of i skip locked
), gone as (
    delete from job_items i using expired e where i.job = e.job and i.target = e.target returning 1
)
select count(*) as deleted, '' as last, count(*) = $2 as more from gone cross join lazy`

const jobsSQL = `
with ` + schema.Lazy + `, expired as materialized (
    select j.id from jobs j where ` + ended + ` and j.id > $1 and not exists (select from job_items i where i.job = j.id) limit $2
       for update of j skip locked
), gone as (
    delete from jobs where id in (select id from expired) returning 1
)
select count(*) as deleted, '' as last, count(*) = $2 as more from gone cross join lazy`
