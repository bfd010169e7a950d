package ledger

// begun is true when a claim begins a new generation. An effect that was refused, or was a fault, after an unanswered
// attempt stays in its generation: the sink may hold that attempt, under the key of this generation. If every attempt
// was answered, none has done anything, and a sink that remembers its answers would give the old one under the old
// key.
const begun = `(e.error_class = 'uncertain' or e.error_class in ('permanent', 'fault') and not coalesce(e.result @> '{"Unanswered": true}', false))`

// claimed compares the state of a row whose key is given: see [schema.Handling].
const claimed = `e.state = (select 'claimed')`

// lockSQL locks the rows that there are, as strongly as what follows does. The order of keys is the lock order of
// this package: flushes sort by key, too.
//
// Each key is asked for by itself, in the order given: for "key = any" Postgres kept a plan of when the table was
// small, and read all of it.
const lockSQL = `
select from unnest($1::text[]) as k(key) cross join lateral (select from effects e where e.key = k.key for no key update) locked`

// claimSQL takes the keys that may be taken. A key that is not returned was not granted.
//
// A claim of an exclusive thing that another holds is left out here. The unique index would refuse the whole commit,
// which then had to be halved until the claim stood alone. The index still decides between two commits.
//
// A claim of another receipt's effect is left out, too: see [ErrForeign].
const claimSQL = `
insert into effects as e (key, kind, exclusive, state, round, receipt_id, event_id, run_id, lease_until, request)
select c.key, c.kind, c.exclusive, 'claimed', c.round, c.receipt_id, c.event_id, c.run_id,
       now() + make_interval(secs => c.lease), c.request
  from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::uuid[], $6::text[], $7::text[], $8::float8[], $9::bytea[],
              $11::text[], $12::text[], $13::text[], $14::text[])
       as c(key, kind, exclusive, round, receipt_id, event_id, run_id, lease, request, provider, account, mode, type)
 where ` + ofReceipt + ` and (c.exclusive = ''
    or not exists (select from effects h where h.exclusive = c.exclusive and h.exclusive <> '' and h.state = 'claimed' and h.key <> c.key))
    on conflict (key) do update set
       state       = 'claimed',
       committing  = false,
       token       = e.token + 1,
       attempts    = e.attempts + 1,
       lease_until = excluded.lease_until,
       receipt_id  = excluded.receipt_id,
       event_id    = excluded.event_id,
       run_id      = excluded.run_id,
       -- A later round starts counting afresh, and has its own time.
       failures    = case when excluded.round > e.round then 0 else e.failures end,
       tried_since = case when excluded.round > e.round then now() else e.tried_since end,
       round       = greatest(e.round, excluded.round),
       -- Only what was answered for good, or is in doubt, gets a new generation and new bytes. After a
       -- transient failure the sink may have taken the request: the same bytes under the same key.
       generation  = e.generation + case when ` + begun + ` then 1 else 0 end,
       request     = case when ` + begun + ` then excluded.request else coalesce(e.request, excluded.request) end,
       claimed_at  = case when ` + begun + ` then now() else e.claimed_at end,
       -- What an earlier generation left open stays known, and keeps no key of this one. An attempt that
       -- ended without an outcome may have come as far as the answer.
       result      = case when e.error_class = 'uncertain' then coalesce(e.result, '{}') - 'Unanswered' || '{"UnansweredBefore": true}'
                          when e.state = 'claimed' and (select u.unmarked from unnest($1::text[], $10::bool[]) as u(key, unmarked) where u.key = e.key)
                          then coalesce(e.result, '{}') || '{"Unanswered": true}'
                          else e.result end,
       error_class = ''
 where (e.state = 'failed' and (e.error_class = 'transient' or excluded.round > e.round))
    or (e.state = 'uncertain' and excluded.round > e.round)
    or (e.state = 'claimed' and e.lease_until < now() and not e.committing)
returning key, token, generation, attempts, round, request, claimed_at, now() - claimed_at as age, failures, now() - tried_since as trying`

// ofReceipt tells whether claim c says what its receipt says, and has a key of that provider and mode. As a subquery it
// is one look into the primary key, whatever Postgres believes about the table's size.
const ofReceipt = `split_part(c.key, ':', 2) = c.provider and split_part(c.key, ':', 3) = c.mode and
       coalesce((select (r.event_id, r.provider, r.account, r.mode, r.type) = (c.event_id, c.provider, c.account, c.mode, c.type)
                   from receipts r where r.id = c.receipt_id), false)`

// foreignSQL finds the claims that are not of their receipts.
const foreignSQL = `
select c.key from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
       as c(key, receipt_id, event_id, provider, account, mode, type)
 where not (` + ofReceipt + `)`

const readSQL = `
select key, state, committing, lease_until, lease_until < now() as lapsed, generation, attempts as attempt, round, receipt_id::text, event_id, result, error, error_class as class,
       now() - claimed_at as age, now() - tried_since as trying
  from effects where key = any($1)`

// lapsedInDoubt is why a claim that lapsed after its point of no return is uncertain.
const lapsedInDoubt = "the attempt ended between the point of no return and the answer; it may have happened"

// lapsedUndone is why any other claim that lapsed is to be tried again.
const lapsedUndone = "the attempt ended without an outcome"

// doubtSQL makes such a claim uncertain. The attempt stays known when a person has decided: the worker that died in
// it could not record it.
const doubtSQL = `
with doubted as (
    update effects as e set state = 'uncertain', error_class = 'uncertain', error = '` + lapsedInDoubt + `'
     where key = $1 and ` + claimed + ` and committing and lease_until < now()
    returning key, generation, receipt_id, run_id, token, claimed_at, error
)
insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, error)
select key, generation, receipt_id, run_id, token, 'uncertain', claimed_at, error from doubted`

const markSQL = `
update effects as e set committing = true
  from unnest($1::text[], $2::bigint[]) as m(key, token)
 where e.key = m.key and e.token = m.token and ` + claimed + ` and e.lease_until > now()
returning e.key, e.token`

// finishSQL writes the outcome and its attempt in one statement. A claim that was taken over carries an older token and
// writes neither. An effect that its first attempt has done has
// no row of an attempt: the view attempts reads it from the effect.
const finishSQL = `
with finished as (
    update effects as e set
           state       = f.state,
           committing  = false,
           request     = case when f.state <> 'done' then e.request end,
           result      = coalesce(f.result, e.result),
           error       = f.error,
           failures    = e.failures + case when f.class in ('transient', 'exhausted') then 1 else 0 end,
           error_class = f.class,
           done_at     = case when f.state in ('done', 'skipped') then now() else e.done_at end
      from unnest($1::text[], $2::bigint[], $3::text[], $4::jsonb[], $5::text[], $6::text[], $7::timestamptz[])
           as f(key, token, state, result, error, class, started_at)
     where e.key = f.key and e.token = f.token and ` + claimed + `
    returning e.key, e.generation, e.receipt_id, e.run_id, e.token, e.state, e.error, e.error_class, e.result, f.started_at
), attempts as (
    insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, error)
    select key, generation, receipt_id, run_id, token, state, started_at, error from finished
     where not (state = 'done' and token = 1 and error = '')
)
select key, token, result from finished`

// compensateSQL also closes what failed without an answer: it may have happened, and has been undone. And what another
// run is at: whatever that comes to has been undone, and a mail that is not yet past its mark is not sent.
const compensateSQL = `
update effects set state = 'compensated' where key = any($1) and state in ('claimed', 'done', 'uncertain', 'failed')`

const sightSQL = `
insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, error)
select s.key, s.generation, s.receipt_id, s.run_id, 0, 'already_done', now(), s.note
  from unnest($1::text[], $2::int[], $3::uuid[], $4::text[], $5::text[]) as s(key, generation, receipt_id, run_id, note)`

// skipSQL records an operator's decision that an unfinished effect shall not be done.
const skipSQL = `
with skipped as (
    insert into effects as e (key, kind, state, receipt_id, event_id, run_id, lease_until, error, done_at)
    values ($1, $2, 'skipped', $3, $4, $5, now(), $6, now())
        on conflict (key) do update set state = 'skipped', committing = false, request = null, token = e.token + 1, error = excluded.error, error_class = '', done_at = now()
     where e.state in ('failed', 'uncertain') or (e.state = 'claimed' and e.lease_until < now())
    returning key, generation, receipt_id, run_id, token
)
insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, error)
select key, generation, receipt_id, run_id, token, 'skipped', now(), $6 from skipped`

// holdersSQL asks for each by itself, as lockSQL does.
const holdersSQL = `
select x.name, h.lease_until, h.lease_until < now() and not h.committing as lapsed
  from unnest($1::text[]) as x(name)
 cross join lateral (select lease_until, committing from effects where exclusive = x.name and exclusive <> '' and state = 'claimed' limit 1) h`

// letGoSQL ends claims that lapsed while they held something exclusive. Nobody knows that their requests were
// refused, so they stay claimable with the same bytes. $2 says that they may have sent something: an exclusive thing
// is done in one way, whoever claims it.
const letGoSQL = `
update effects set state = 'failed', error_class = 'transient', error = '` + lapsedUndone + `',
       result = case when $2 then coalesce(result, '{}') || '{"Unanswered": true}' else result end
 where exclusive = $1 and exclusive <> '' and state = 'claimed' and lease_until < now() and not committing`

const uncertainSQL = `
select (select count(*) from effects where state = 'uncertain')
     + (select count(*) from effects where state = 'claimed' and committing and lease_until < now())`
