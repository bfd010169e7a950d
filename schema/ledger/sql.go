package ledger

// begun is true if a claim begins a new generation. After a refusal or a fault, the effect stays in its generation if
// an earlier attempt was not answered, because the sink may have done that attempt under the same key. If every attempt
// was answered, no attempt has changed anything in the sink. A sink that stores its responses would return the old
// response for the old key, so a new key is needed.
const begun = `(e.error_class = 'uncertain' or e.error_class in ('permanent', 'fault') and not coalesce(e.result @> '{"Unanswered": true}', false))`

// claimed compares the state of a row that was found by key; see [schema.Handling].
const claimed = `e.state = (select 'claimed')`

// lockSQL locks the existing rows as strongly as the statements that follow it. The lock order of this package is by
// key.
//
// It looks up each key separately, in the given order. For "key = any", Postgres kept a plan for a small table and read
// the whole table.
const lockSQL = `
select from unnest($1::text[]) as k(key) cross join lateral (select from effects e where e.key = k.key for no key update) locked`

// claimSQL claims the keys that can be claimed, and returns them.
//
// It skips a claim of an exclusive name that another claim holds. Otherwise the unique index would reject the whole
// flush, which would then be halved until only this claim failed. If another process claims the name at the same time,
// the unique index rejects the later one.
//
// It also skips a claim of an effect that belongs to another receipt; see [ErrForeign].
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
       -- Only an effect with a final answer, or in doubt, gets a new generation and new bytes. After a
       -- transient failure the sink may have taken the request: the same bytes under the same key.
       generation  = e.generation + case when ` + begun + ` then 1 else 0 end,
       request     = case when ` + begun + ` then excluded.request else coalesce(e.request, excluded.request) end,
       claimed_at  = case when ` + begun + ` then now() else e.claimed_at end,
       -- An unanswered attempt of an earlier generation stays recorded, but does not affect the key of this one. An attempt that
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

// ofReceipt is true if claim c names the event of its receipt, and if its key contains the receipt's provider and mode.
// It is a subquery, so that Postgres looks up the primary key even if it believes that the table is small.
const ofReceipt = `split_part(c.key, ':', 2) = c.provider and split_part(c.key, ':', 3) = c.mode and
       coalesce((select (r.event_id, r.provider, r.account, r.mode, r.type) = (c.event_id, c.provider, c.account, c.mode, c.type)
                   from receipts r where r.id = c.receipt_id), false)`

// foreignSQL returns the claims for which ofReceipt is false.
const foreignSQL = `
select c.key from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
       as c(key, receipt_id, event_id, provider, account, mode, type)
 where not (` + ofReceipt + `)`

const readSQL = `
select key, state, committing, lease_until, lease_until < now() as lapsed, generation, attempts as attempt, round, receipt_id::text, event_id, result, error, error_class as class,
       now() - claimed_at as age, now() - tried_since as trying
  from effects where key = any($1)`

// lapsedInDoubt is the error of a claim that lapsed after its point of no return.
const lapsedInDoubt = "the attempt ended after the point of no return and before the answer; it may have happened"

// lapsedUndone is the error of any other lapsed claim. The effect can be claimed again.
const lapsedUndone = "the attempt ended without an outcome"

// doubtSQL makes a claim uncertain if it lapsed after its point of no return. It also stores the attempt, because the
// worker that died in the attempt could not. This record remains after a person has decided.
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

// finishSQL stores the outcome and its attempt in one statement. If another claim has taken over, the token differs and
// nothing is stored. An effect that succeeds at the first attempt gets no row in the table of attempts; the view
// attempts derives it from the effect.
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

// compensateSQL also closes an effect that failed without an answer, because it may have happened and is now undone. It
// closes even an effect that another run is doing now: the outcome of that run counts as undone, and an e-mail that has
// not passed its point of no return is not sent.
const compensateSQL = `
update effects set state = 'compensated' where key = any($1) and state in ('claimed', 'done', 'uncertain', 'failed')`

const sightSQL = `
insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, error)
select s.key, s.generation, s.receipt_id, s.run_id, 0, 'already_done', now(), s.note
  from unnest($1::text[], $2::int[], $3::uuid[], $4::text[], $5::text[]) as s(key, generation, receipt_id, run_id, note)`

// skipSQL records the decision of an operator not to do an unfinished effect.
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

// holdersSQL looks up each name separately, for the same reason as lockSQL.
const holdersSQL = `
select x.name, h.lease_until, h.lease_until < now() and not h.committing as lapsed
  from unnest($1::text[]) as x(name)
 cross join lateral (select lease_until, committing from effects where exclusive = x.name and exclusive <> '' and state = 'claimed' limit 1) h`

// letGoSQL ends lapsed claims of exclusive names. A sink may have accepted their requests, so the effects can be
// claimed again only with the same bytes. $2 is true if the effects can happen without a Commit. All effects with the
// same exclusive name have the same $2.
const letGoSQL = `
update effects set state = 'failed', error_class = 'transient', error = '` + lapsedUndone + `',
       result = case when $2 then coalesce(result, '{}') || '{"Unanswered": true}' else result end
 where exclusive = $1 and exclusive <> '' and state = 'claimed' and lease_until < now() and not committing`

const releaseSQL = `
update effects as e set state = 'failed', error_class = 'transient', error = $3
 where e.key = $1 and e.token = $2 and ` + claimed + ` and not e.committing`

const uncertainSQL = `
select (select count(*) from effects where state = 'uncertain')
     + (select count(*) from effects where state = 'claimed' and committing and lease_until < now())`
