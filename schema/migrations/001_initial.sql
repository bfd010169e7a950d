-- Everything durable: receipts, runs, the effect ledger, the application state that effects
-- converge on, the outbox, and what operators did. Creates tables only; locks nothing in use.
-- Until a release has carried this file it is edited in place; from then on never again.

-- One row per event, for ever: (provider, account, mode, event_id) is the permanent authority on
-- "have we got this already". account is '' where the provider has no tenants, never null, so
-- that the unique key holds. The authorities on "once", receipts by event and effects by key, compare
-- bytes: under a language's collation, an upgrade of the system's C library may change the order that
-- their indexes were built in, and an event would be taken twice.
create table receipts (
    -- A UUIDv7: its order is that of arrival, so that lists need no index of their own.
    id             uuid primary key,
    -- source, and all that was read of the event, are of the delivery whose bytes are kept: the first one, or the first
    -- that a source wanted.
    source         text        not null,
    provider       text        collate "C" not null,
    account        text        collate "C" not null default '',
    mode           text        not null check (mode in ('live', 'test')),
    event_id       text        collate "C" not null check (octet_length(event_id) between 1 and 200),
    -- identity is what identifies the event: its ID; its bytes, where nothing signs the ID; or either.
    identity       text        not null check (identity in ('id', 'bytes', 'id_or_bytes')),
    type           text        not null default '',
    object_id      text        not null default '',
    api_version    text        not null default '',
    occurred_at    timestamptz,
    received_at    timestamptz not null,
    body_hash      bytea       not null,
    secret_label   text        not null default '',
    correlation_id text        not null default '',
    status         text        not null check (status in
                       ('received', 'processing', 'retrying', 'needs_review', 'dead', 'processed', 'compensated', 'ignored')),
    -- reason says why a receipt is ignored, parked or dead; '' while nothing is wrong. It is a code, or a
    -- code, ": " and words for a person. reason_code is that code, for filters, counts and scripts: it is
    -- computed here so that the two never disagree. Words without a code have none.
    reason         text        not null default '',
    reason_code    text        not null generated always as
                       (coalesce(substring(reason from '^[a-z][a-z0-9]*(?:_[a-z0-9]+)*(?=: |$)'), '')) stored,
    workflow_id    text        not null default '',
    last_error     text        not null default '',
    duplicates     integer     not null default 0,
    -- dispatch_at is when the sweep may start the workflow of a receipt that is still 'received'.
    dispatch_at    timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    -- replayed: the same bytes as another event's, under an event ID that no signature covers. One receipt for all such.
    replayed       boolean     not null default false,
    -- relay_of, where it is set, is the ID of an event that another source's receipt runs: this one relays it to the
    -- consumers of its own source, and does nothing else.
    relay_of       text        collate "C" not null default '',
    -- waits is what its parked run waits for: the decisions that it takes, and the effects that they can be about.
    waits          jsonb,
    -- rerun is set while a person's replay waits for its start: who asked for it, why, and after which run.
    rerun          jsonb,
    -- fence is when the workflow task began by which the status was written last, in Temporal's time; null
    -- where none wrote it. A write by an older task changes nothing: a worker that was stopped may finish a
    -- task that another has taken over since.
    fence          timestamptz,
    -- The event's ID stands first: it decides nearly every comparison alone.
    constraint receipts_event unique (event_id, provider, account, mode)
);
-- Partial, so that a finished receipt costs these indexes nothing.
create index receipts_to_dispatch on receipts (dispatch_at) where status = 'received';
create index receipts_open on receipts (status, received_at) where status in ('processing', 'retrying', 'needs_review', 'dead');
-- Those that wait for their source's pause to end are due never.
create index receipts_paused on receipts (source, id) where status = 'received' and dispatch_at = 'infinity';
-- For lists: what has a reason. A healthy event costs nothing.
create index receipts_reason on receipts (reason_code, source, type, status, id) where reason_code <> '';
-- For lists by source, type and status. An event costs one entry, with its end: what takes it in does not pay.
create index receipts_kind on receipts (source, type, status, id) where status in ('processed', 'compensated', 'ignored');
create index receipts_parked_object on receipts (object_id) where status in ('needs_review', 'dead');
-- Finds the same bytes under another unsigned delivery ID (GitHub, Shopify). Hashes fall anywhere in
-- an index, so that each insert of a large table touches a cold page of it; events whose ID is signed
-- do not pay for that.
create index receipts_body_hash on receipts (provider, body_hash) where identity <> 'id';

-- Bodies stand apart so that retention and erasure leave the receipt and the ledger standing.
-- No foreign key: it would cost every insert a lookup in the same statement that made the row.
create table receipt_bodies (
    receipt_id uuid primary key,
    -- json and not jsonb: it is read back as a whole, and keeping the text costs the accept path less.
    headers    json  not null,
    -- The trace of the delivery, out of the headers: the ingress reads it, and no others of them.
    trace      text  generated always as (headers -> 'Traceparent' ->> 0) stored,
    -- null: the receipt is a suspected replay, and the body is that of the receipt with the same body_hash that is none.
    body       bytea
);
-- Bodies are compressed by the provider or small; spend no CPU on the accept path.
alter table receipt_bodies alter column body set storage external;

-- The body of each receipt that has one. A replay's is that of the first receipt with the same bytes.
create view held_bodies as
select b.receipt_id, b.headers, coalesce(b.body, (
           select o.body from receipts r
             join receipts f on f.provider = r.provider and f.body_hash = r.body_hash and f.identity <> 'id' and not f.replayed
             join receipt_bodies o on o.receipt_id = f.id
            where r.id = b.receipt_id limit 1)) as body
  from receipt_bodies b;

-- The first delivery of an event says nothing that its receipt does not say: only later ones have rows.
create table redeliveries (
    id           bigint generated always as identity primary key,
    receipt_id   uuid        not null,
    source       text        not null,
    received_at  timestamptz not null,
    body_hash    bytea       not null,
    secret_label text        not null default '',
    -- ignored: this was the first delivery, to a source that did not want it, and the receipt is another one's now.
    outcome      text        not null default 'duplicate' check (outcome in ('duplicate', 'ignored'))
);
create index redeliveries_receipt on redeliveries (receipt_id);

-- Each authentic delivery. The bytes that the receipt has are those of the one that is new, or a replay; the others
-- are duplicates of it, or were ignored before it came.
create view deliveries as
select id as receipt_id, source, received_at, case when replayed then 'replay' else 'new' end as outcome, body_hash, secret_label
  from receipts
union all
select receipt_id, source, received_at, outcome, body_hash, secret_label
  from redeliveries;

-- Each sending by a provider whose signature holds only a checksum of the bytes (PayPal): the bytes that came first
-- under its ID. One row for each delivery of such a provider, for ever.
create table transmissions (
    provider  text  not null,
    id        text  not null check (octet_length(id) between 1 and 200),
    body_hash bytea not null,
    primary key (provider, id)
);

-- What was refused: bounded in number per source and short-lived, with the diagnosis. For
-- operators only; nothing in it was ever admitted. Signatures are kept among the headers, because the
-- request is verified again when an operator admits it; of a token its hash is.
create table rejections (
    id          uuid primary key,
    source      text        not null,
    received_at timestamptz not null,
    class       text        not null,
    detail      text        not null default '',
    -- diagnosis is a list of {code, text}.
    diagnosis   jsonb       not null default '[]',
    -- likely is set where a probe shows that the request comes from somebody who has a secret.
    likely      boolean     not null default false,
    remote_addr text        not null default '',
    method      text        not null default '',
    query       text        not null default '',
    headers     jsonb       not null,
    body        bytea       not null,
    -- body_size counts the bytes that came in; truncated says that body holds fewer.
    body_size   bigint      not null default 0,
    truncated   boolean     not null default false,
    admitted_at timestamptz
);
create index rejections_recent on rejections (source, received_at desc);

-- How often each class was refused, and each secret admitted a request (for "safe to remove"), per source and day: the
-- only write that a flood of bad signatures costs, summed in memory and added every few seconds.
create table source_counts (
    source text        not null,
    what   text        not null check (what in ('refused', 'admitted')),
    -- name is the class, or the secret's label.
    name   text        not null,
    day    date        not null,
    count  bigint      not null default 0,
    last   timestamptz not null,
    primary key (source, what, name, day)
);

-- How many requests each source has admitted in each hour: a row for each, by which its silence is told from its habit.
create table source_hours (
    source text        not null,
    hour   timestamptz not null,
    count  bigint      not null default 0,
    primary key (source, hour)
);

-- Our own failures to take authentic deliveries of each source, in a row: a 2xx ends it. Providers give up by it.
create table source_failures (
    source   text        primary key,
    failures bigint      not null,
    -- since is when the first of them came, last when the last did.
    since    timestamptz not null,
    last     timestamptz not null
);

-- What the last look at each source's endpoint, where its provider can be asked, has found.
create table endpoints (
    source    text        primary key,
    looked_at timestamptz not null,
    -- off_since is when it was last seen to be on, before it was off, and off_until when it was seen to be on again.
    off_since timestamptz,
    off_until timestamptz,
    -- findings is a list of {kind, says, since}.
    findings  jsonb       not null
);

-- Deliveries that operators sent to see whether one arrives: for a day, and no events.
create table probes (
    id           text        not null,
    source       text        not null,
    received_at  timestamptz not null,
    secret_label text        not null,
    primary key (source, id)
);

create table runs (
    workflow_id     text        not null,
    run_id          text        not null,
    receipt_id      uuid        not null,
    kind            text        not null check (kind in ('original', 'replay', 'reset', 'due')),
    requested_by    text        not null default '',
    reason          text        not null default '',
    previous_run_id text        not null default '',
    started_at      timestamptz not null default now(),
    closed_at       timestamptz,
    outcome         text        not null default '',
    primary key (workflow_id, run_id)
);
create index runs_receipt on runs (receipt_id);
create index runs_compensated on runs (closed_at) where outcome = 'compensated';

-- What people did to runs in Temporal, where pawl was not asked, as its histories tell it. A reset stands under the run
-- that it made.
create table interventions (
    workflow_id text        not null,
    run_id      text        not null,
    what        text        not null check (what in ('cancelled', 'terminated', 'reset')),
    receipt_id  uuid        not null,
    at          timestamptz not null,
    -- who is the identity that was given to Temporal, why the reason; '' where it does not know.
    who         text        not null default '',
    why         text        not null default '',
    primary key (workflow_id, run_id, what)
);
create index interventions_receipt on interventions (receipt_id);

-- The ledger: one row per business effect. The key names the effect, never the run.
create table effects (
    key          text collate "C" primary key check (octet_length(key) <= 500),
    kind         text        not null,
    -- exclusive names what only one claim at a time may touch (one account's workspace), so that
    -- an older target state cannot land after a newer one; '' for nothing.
    exclusive    text        not null default '',
    state        text        not null check (state in
                     ('claimed', 'done', 'failed', 'uncertain', 'skipped', 'compensated')),
    -- round counts the operator's retries; a claim of a later round may repeat what had ended.
    round        integer     not null default 0,
    -- generation counts deliberate repeats of something that had been sent and refused, or whose
    -- outcome nobody knows. It is part of the idempotency key from the second on.
    generation   integer     not null default 1,
    -- committing marks a claim that has passed the point of no return (a mail's final dot):
    -- if its lease runs out in this state, nobody knows, and the effect is uncertain.
    committing   boolean     not null default false,
    receipt_id   uuid        not null,
    event_id     text        not null,
    run_id       text        not null,
    -- token fences a claim: a worker that lost its lease carries an older one and can no longer write.
    token        bigint      not null default 1,
    lease_until  timestamptz not null,
    attempts     integer     not null default 1,
    -- failures counts the transient failures of this round; infrastructure trouble does not count. tried_since is when
    -- the round's first attempt was claimed. A sink's retries go by both.
    failures     integer     not null default 0,
    tried_since  timestamptz not null default now(),
    -- request holds the exact bytes of the first attempt: every later one sends the same. It goes when the effect is done
    -- or skipped.
    request      bytea,
    result       jsonb,
    error        text        not null default '',
    error_class  text        not null default '' check (error_class in ('', 'transient', 'exhausted', 'fault', 'permanent', 'uncertain')),
    claimed_at   timestamptz not null default now(),
    done_at      timestamptz
) with (fillfactor = 85);
create unique index effects_exclusive on effects (exclusive) where state = 'claimed' and exclusive <> '';
create index effects_receipt on effects (receipt_id);
create index effects_open on effects (state, lease_until) where state in ('claimed', 'failed', 'uncertain');

-- What was tried, by which run, and what came of it. A second event for the same fact leaves its
-- 'already_done' here: that is its evidence. An effect that its first attempt has done has no row here: the view
-- attempts has all.
create table effect_attempts (
    id         bigint generated always as identity,
    key        text        collate "C" not null,
    generation integer     not null,
    receipt_id uuid        not null,
    run_id     text        not null,
    token      bigint      not null,
    outcome    text        not null check (outcome in
                   ('done', 'failed', 'uncertain', 'already_done', 'skipped')),
    started_at timestamptz not null,
    ended_at   timestamptz not null default now(),
    error      text        not null default '',
    -- One index for both: what is tried again, or met again, writes a row.
    primary key (receipt_id, id)
);
create index effect_attempts_key on effect_attempts (key);

create view attempts as
select key, generation, receipt_id, run_id, token, outcome, started_at, ended_at, error from effect_attempts
union all
select key, generation, receipt_id, run_id, token, 'done', claimed_at, done_at, ''
  from effects where token = 1 and attempts = 1 and error = '' and state in ('done', 'compensated') and done_at is not null;

-- Which runs wait with an effect for an earlier one, first, to be settled: who settles that wakes them.
create table effect_waits (
    key         text collate "C" not null,
    workflow_id text             not null,
    first       text collate "C" not null,
    since       timestamptz      not null default now(),
    primary key (key, workflow_id)
);
create index effect_waits_first on effect_waits (first);

-- The sinks that are, or were, out: what their effects wait for. One row for each, which all workers share.
create table breakers (
    sink     text        primary key,
    open     boolean     not null,
    -- since is when it was opened, or closed; reason says what the sink does, '' where it is closed, and said what the
    -- sink said itself.
    since    timestamptz not null,
    reason   text        not null,
    said     text        not null default '',
    -- The effects that have failed, the latest last: the accounts that they are about, and their events.
    about    text[]      not null default '{}',
    events   text[]      not null default '{}',
    -- probes counts those that have failed; the next may go through at probe_at.
    probes   integer     not null default 0,
    probe_at timestamptz not null
);

-- What operators have paused, and had paused before: the effects of a sink wait then, or the runs of a source.
create table pauses (
    id    bigint      generated always as identity primary key,
    kind  text        not null check (kind in ('sink', 'source')),
    name  text        not null,
    since timestamptz not null default now(),
    until timestamptz,
    who   text        not null,
    why   text        not null,
    -- told: some process lets in who has waited for the sink.
    told  boolean     not null default false
);
create unique index pauses_now on pauses (kind, name) where until is null;

-- Who is signed in to the console. The ID is the SHA-256 of what the browser holds.
create table sessions (
    id         bytea       primary key,
    name       text        not null,
    roles      text[]      not null,
    -- How the name was verified: password, oidc.
    via        text        not null check (via in ('password', 'oidc')),
    created_at timestamptz not null default now(),
    seen_at    timestamptz not null default now(),
    ends_at    timestamptz not null
);
create index sessions_of_name on sessions (name);

-- What billing events say, and what it comes to. mode is part of every key: test and live never meet.

-- What one event says about one object. Never changed, and kept when the event's body is erased.
create table facts (
    id               bigint generated always as identity,
    provider         text        not null,
    provider_account text        not null default '',
    mode             text        not null check (mode in ('live', 'test')),
    kind             text        not null,
    object           text        collate "C" not null,
    customer         text        not null default '',
    event_id         text        not null,
    event_type       text        not null default '',
    receipt_id       uuid        not null,
    occurred_at      timestamptz not null,
    -- rank orders the facts of one object that occurred in one second.
    rank             smallint    not null,
    origin           text        not null check (origin in ('event', 'fetched', 'import', 'operator', 'reread')),
    -- reader is the version of the reader that has read it, 0 where nothing was read. reading is the reread that it is of,
    -- '' for the first reading of the event.
    reader           smallint    not null default 0,
    reading          text        not null default '',
    -- '{}' in a later reading: the event says nothing about the object.
    data             jsonb       not null,
    recorded_at      timestamptz not null default now(),
    -- One index for both.
    primary key (receipt_id, id)
);
-- Each reading of an event says one thing about an object; and the facts of an object are read by the same index.
create unique index facts_once on facts (object, event_id, kind, mode, provider, provider_account, reading);
create index facts_customer on facts (customer) where customer <> '';
-- What is about a charge: few events are.
create index facts_about_charges on facts (mode) where kind in ('refund_seen', 'dispute_seen', 'warning_seen');
-- An event that was read once costs this index nothing.
create index facts_reread on facts (object, event_id) where reading <> '';

-- The facts that count: of several readings of an event the one by the newest reader, and of these the last.
create view current_facts as
select * from facts f
 where data <> '{}'
   and not exists (select from facts n
                    where n.object = f.object and n.event_id = f.event_id and n.reading <> '' and n.kind = f.kind and n.mode = f.mode
                      and n.provider = f.provider and n.provider_account = f.provider_account and (n.reader, n.id) > (f.reader, f.id));

-- Each time that kept bodies were read again.
create table readings (
    id     text        primary key,
    reader smallint    not null,
    -- undoes is the reading that it takes back, null for none.
    undoes text        references readings,
    who    text        not null,
    why    text        not null,
    at     timestamptz not null default now()
);

-- What configuration makes of facts: plans, prices, accounts and policy, by the hash of what it says. A process whose file
-- says another one than that in force proposes it again and again.
create table meanings (
    hash        text        primary key,
    body        jsonb       not null,
    proposed_by text        not null,
    proposed_at timestamptz not null default now()
);
-- Which one came into force when. The newest is in force.
create table meaning_switches (
    id   bigint      generated always as identity primary key,
    hash text        not null references meanings,
    who  text        not null,
    why  text        not null,
    at   timestamptz not null default now()
);

-- How customers are written to: one row for each, the newest of what objects tell. Beside bodies, this table and the pages
-- of invoices are the only place with personal data. customer is a checkout session where a guest has bought. said and
-- locale_said are the places of the row's two halves in the order of what is told.
create table addresses (
    customer         text        collate "C" not null check (customer <> ''),
    mode             text        not null check (mode in ('live', 'test')),
    provider         text        not null,
    provider_account text        not null default '',
    email            text        not null default '',
    -- email_hash is the SHA-256 of the address in lower case, by which the customer is found.
    email_hash       bytea,
    name             text        not null default '',
    said             text        collate "C" not null,
    locale           text        not null default '',
    zone             text        not null default '',
    locale_said      text        collate "C" not null default '',
    -- forgotten_at is when a person had the customer forgotten: the row holds nothing from then on.
    forgotten_at     timestamptz,
    updated_at       timestamptz not null default now(),
    primary key (customer, mode, provider, provider_account)
);
create index addresses_email on addresses (email_hash) where email_hash is not null;

-- The tables below hold what the facts fold to. They can be made anew from the facts. state is the whole of an object,
-- as JSON; the columns are what is looked for.

create table accounts (
    mode            text        not null check (mode in ('live', 'test')),
    id              text        not null,
    provider        text        not null,
    customer        text        not null default '',
    -- What the account's workspace shall be. The version grows when that changes.
    target_version  bigint      not null default 0,
    target_state    text        not null default '',
    target_plan     text        not null default '',
    target_quantity bigint      not null default 0,
    target_features text[]      not null default '{}',
    -- All features that it ever had.
    known_features  text[]      not null default '{}',
    -- held: a hold is on all that the account has.
    held            boolean     not null default false,
    -- over_at is when what granted access last was over; null while nothing was.
    over_at         timestamptz,
    -- folded_at is when facts, or the clock, were last applied.
    folded_at       timestamptz not null default now(),
    -- reconciled_at is when a job last compared it with what the provider says; null for never.
    reconciled_at   timestamptz,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    primary key (mode, id)
);
create index accounts_customer on accounts (customer, mode) where customer <> '';
create index accounts_alike on accounts (lower(id));
-- For lists. Access changes seldom, and what else is written of an account costs them nothing.
create index accounts_access on accounts (coalesce(nullif(target_state, ''), 'none'), mode, id);
create index accounts_plan on accounts (target_plan, mode, id);

create table subscriptions (
    mode       text        not null check (mode in ('live', 'test')),
    id         text        not null,
    account    text        not null,
    customer   text        not null default '',
    status     text        not null,
    plan       text        not null default '',
    quantity   bigint      not null default 0,
    ended      boolean     not null default false,
    state      jsonb       not null,
    updated_at timestamptz not null default now(),
    primary key (mode, id)
);
create index subscriptions_account on subscriptions (account, mode);
create index subscriptions_status on subscriptions (status, mode, account) where not ended;
create index subscriptions_not_ours on subscriptions (mode, (coalesce(state ->> 'Named', customer))) where state ? 'NotOurs';
create index subscriptions_customer on subscriptions (customer, mode) where customer <> '';

create table invoices (
    mode         text        not null check (mode in ('live', 'test')),
    id           text        not null,
    account      text        not null,
    subscription text        not null default '',
    customer     text        not null default '',
    status       text        not null,
    -- amount is what was paid, in minor units of the currency.
    amount       bigint      not null,
    currency     text        not null,
    period_start timestamptz not null,
    occurred_at  timestamptz not null,
    -- page is where the customer can see and pay it. No fact tells it: whoever has it reads the customer's name there.
    page         text        not null default '',
    state        jsonb       not null,
    updated_at   timestamptz not null default now(),
    primary key (mode, id)
);
create index invoices_not_ours on invoices (mode, (coalesce(state ->> 'Named', customer))) where state ? 'NotOurs';
create index invoices_account on invoices (account, mode, occurred_at);
create index invoices_subscription on invoices (subscription, mode, period_start) where subscription <> '';
create index invoices_open on invoices (subscription, mode, period_start) where subscription <> '' and status = 'open';
create index invoices_number on invoices ((state ->> 'Number')) where state ->> 'Number' <> '';
create index invoices_customer on invoices (customer, mode, occurred_at) where customer <> '';

-- Payments, refunds, disputes, early fraud warnings, credit notes and checkout sessions. A payment is a payment intent, or a
-- charge that has none. account is '' for as long as it is not known whose it is: a refund names no customer, and a charge
-- need not name its invoice. payment, invoice and subscription are what the object belongs to, '' where that is not known,
-- or there is none. The views below show each kind. Amounts are in minor units of the currency.
create table objects (
    mode         text        not null check (mode in ('live', 'test')),
    kind         text        not null check (kind in ('payment', 'refund', 'dispute', 'fraud_warning', 'credit_note', 'checkout')),
    id           text        not null,
    account      text        not null default '',
    payment      text        not null default '',
    invoice      text        not null default '',
    subscription text        not null default '',
    customer     text        not null default '',
    state        jsonb       not null,
    updated_at   timestamptz not null default now(),
    primary key (id, mode, kind)
);
create index objects_account on objects (account, kind, mode);
create index objects_payment on objects (payment, mode) where payment <> '';
create index objects_invoice on objects (invoice, mode) where invoice <> '';
create index objects_subscription on objects (subscription, kind, mode) where subscription <> '';
create index objects_charge on objects ((state ->> 'Charge')) where kind = 'payment' and state ->> 'Charge' <> '';
create index objects_unplaced on objects (updated_at) where kind in ('payment', 'refund', 'dispute') and (not state ? 'Purchase' or state ? 'Untold');
create index objects_customer on objects (customer, mode) where customer <> '';

create view payments as
select mode, id, account, invoice, subscription, customer, state ->> 'Status' as status, coalesce((state ->> 'Refunded')::bigint, 0) as refunded,
       (state ->> 'Amount')::bigint as amount, state ->> 'Currency' as currency, state, updated_at
  from objects where kind = 'payment';
create view refunds as
select mode, id, account, payment, invoice, subscription, customer, state ->> 'Status' as status,
       (state ->> 'Amount')::bigint as amount, state ->> 'Currency' as currency, state, updated_at
  from objects where kind = 'refund';
create view disputes as
select mode, id, account, payment, invoice, subscription, customer, state ->> 'Status' as status,
       (state ->> 'Amount')::bigint as amount, state ->> 'Currency' as currency, state, updated_at
  from objects where kind = 'dispute';
create view fraud_warnings as
select mode, id, account, payment, invoice, subscription, customer, (state ->> 'Actionable')::boolean as actionable, state, updated_at
  from objects where kind = 'fraud_warning';
-- amount is what was credited, but for what its refunds pay back.
create view credit_notes as
select mode, id, account, invoice, subscription, customer, state ->> 'Status' as status,
       (state ->> 'Amount')::bigint as amount, state ->> 'Currency' as currency, state, updated_at
  from objects where kind = 'credit_note';
create view checkouts as
select mode, id, account, payment, customer, state ->> 'Status' as status, state ->> 'PaymentStatus' as payment_status,
       (state ->> 'Amount')::bigint as amount, state ->> 'Currency' as currency, state, updated_at
  from objects where kind = 'checkout';

-- What gives an account access: one row for each object that grants, a subscription or what was bought once.
create table grants (
    mode     text        not null check (mode in ('live', 'test')),
    object   text        not null,
    account  text        not null,
    plan     text        not null,
    quantity bigint      not null default 0,
    add_ons  text[]      not null default '{}',
    -- until informs; ends is when the clock ends it.
    until    timestamptz,
    ends     timestamptz,
    because  text        not null default '',
    primary key (mode, object)
);
create index grants_account on grants (account, mode);

-- What the clock does: one row for each time at which something changes without a fact. Facts write and replace them; a
-- run takes those whose time has come.
create table due (
    mode             text        not null check (mode in ('live', 'test')),
    -- owner is whose facts write the row: a subscription for itself and its invoices, what was bought once, an account.
    owner            text        not null,
    account          text        not null,
    object           text        not null,
    why              text        not null check (why in ('end', 'grace', 'one_off', 'ending', 'dunning', 'settle', 'book', 'renewal', 'add_on', 'keep', 'hold', 'refold', 'changed', 'ended', 'taken')),
    step             integer     not null default 0,
    at               timestamptz not null,
    -- The fact that made it due: what is done belongs to its receipt.
    provider         text        not null,
    provider_account text        not null default '',
    event_id         text        not null,
    receipt_id       uuid        not null,
    occurred_at      timestamptz not null,
    -- next_at is when the sweep takes it next: at its time, and again where no run has taken it since.
    next_at          timestamptz not null,
    primary key (mode, object, why, at)
);
create index due_next on due (next_at);
create index due_account on due (account, mode, at);
create index due_owner on due (owner, mode);

-- What outside systems have taken.

create table workspaces (
    mode       text        not null check (mode in ('live', 'test')),
    account    text        not null,
    version    bigint      not null,
    state      text        not null check (state in ('active', 'suspended', 'released')),
    plan       text        not null,
    quantity   bigint      not null default 0,
    features   text[]      not null default '{}',
    effect_key text        not null,
    updated_at timestamptz not null default now(),
    primary key (mode, account)
);

-- What a person has to do about an object.
create table tasks (
    mode       text        not null check (mode in ('live', 'test')),
    kind       text        not null,
    object     text        not null,
    account    text        not null default '',
    state      text        not null check (state in ('open', 'done', 'cancelled')),
    title      text        not null,
    effect_key text        not null,
    -- subscription is the one with whose end the task is cancelled; '' for none.
    subscription text      not null default '',
    -- due_by is when it is too late, null where nothing but patience ends.
    due_by     timestamptz,
    -- reminded is how many hours before that the news last told of it, 0 for not yet.
    reminded   integer     not null default 0,
    -- taken_by is who sees to it, '' for nobody.
    taken_by   text        not null default '',
    -- created_at is when it was opened last.
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (mode, kind, object)
);
create index tasks_open on tasks (account, mode) where state = 'open';
create index tasks_object on tasks (object);
create index tasks_due on tasks (due_by) where state = 'open' and due_by is not null;
create index tasks_subscription on tasks (subscription, mode) where subscription <> '';

create table finance_entries (
    effect_key       text primary key,
    mode             text        not null check (mode in ('live', 'test')),
    -- account is the one that it was booked under. It stays, also where the object moves.
    account          text        not null,
    provider_account text        not null default '',
    object           text        not null,
    invoice          text        not null default '',
    kind             text        not null check (kind in
                         ('payment', 'reversal', 'refund', 'refund_reversal', 'credit', 'credit_reversal', 'dispute', 'correction')),
    amount           bigint      not null,
    tax              bigint      not null default 0,
    currency         text        not null,
    -- settlement is what moved on the provider's balance: amount, fee and net in its currency. Null where nothing told.
    settlement       jsonb,
    -- settlement_unknown is why it is null, though it was asked for: not_told, not_permitted, no_payment or not_certain.
    settlement_unknown text      not null default '',
    reference        text        not null default '',
    created_at       timestamptz not null default now()
);
create index finance_entries_account on finance_entries (account, mode, created_at);
create index finance_entries_object on finance_entries (object, mode);

-- What a person has decided to book, because a later reading or another meaning says otherwise than what is booked.
create table finance_corrections (
    effect_key       text primary key,
    -- corrects is the effect of the entry that it corrects.
    corrects         text        not null,
    mode             text        not null check (mode in ('live', 'test')),
    account          text        not null,
    provider_account text        not null,
    object           text        not null,
    invoice          text        not null,
    amount           bigint      not null,
    tax              bigint      not null,
    currency         text        not null,
    decided_at       timestamptz not null
);
create index finance_corrections_object on finance_corrections (object, mode);

-- Views for readers outside of pawl: docs/data.md says what each column holds. Their names and columns stay. They hold no
-- personal data but the provider's IDs.
create view pawl_accounts as
select a.mode, a.id as account, a.provider, a.customer, coalesce(nullif(a.target_state, ''), 'none') as access,
       a.target_plan as plan, a.target_quantity as quantity, a.target_features as features, a.target_version as version, a.held,
       array(select distinct s.status from subscriptions s where s.mode = a.mode and s.account = a.id and not s.ended and s.status <> ''
              order by s.status) as statuses,
       (select case when bool_and(coalesce(g.ends, g.until) is not null) then max(coalesce(g.ends, g.until)) end from grants g
         where g.mode = a.mode and g.account = a.id and g.plan <> '' and coalesce(g.ends, 'infinity') > now() and not a.held) as until,
       coalesce((select w.version from workspaces w where w.mode = a.mode and w.account = a.id), 0) as workspace_version,
       a.created_at, a.updated_at
  from accounts a;
create view entitlements as
select a.mode, a.id as account, feature, feature = any(a.target_features) as enabled, a.updated_at
  from accounts a cross join unnest(a.known_features) as feature;
create view pawl_features as
select mode, account, feature, enabled, updated_at from entitlements;
create view pawl_subscriptions as
select mode, id as subscription, account, customer, status, plan, quantity, (state ->> 'PeriodEnd')::timestamptz as period_end,
       (state ->> 'EndsAt')::timestamptz as ends_at, (state ->> 'EndedAt')::timestamptz as ended_at, updated_at
  from subscriptions;
create view pawl_invoices as
select mode, id as invoice, coalesce(state ->> 'Number', '') as number, account, customer, subscription, status,
       coalesce((state ->> 'Due')::bigint, 0) as due, coalesce((state ->> 'Paid')::bigint, 0) as paid,
       coalesce((state ->> 'Refunded')::bigint, 0) as refunded, currency, (state ->> 'PeriodStart')::timestamptz as period_start,
       (state ->> 'PeriodEnd')::timestamptz as period_end, (state ->> 'PaidAt')::timestamptz as paid_at, updated_at
  from invoices;
create view pawl_entries as
select effect_key as entry, created_at as booked_at, mode, account, kind, object, invoice, amount, tax, currency, reference
  from finance_entries;
create view pawl_tasks as
select mode, kind, object, account, state, title, due_by, taken_by, created_at as opened_at, updated_at from tasks;
create view pawl_events as
select id as receipt, event_id as event, provider, account as provider_account, mode, source, type, object_id as object, occurred_at,
       received_at, status, reason_code, updated_at
  from receipts;

-- Internal events, written in the transaction of the change that they announce. Order is kept
-- per account: the relay only ever takes the oldest unpublished row of an account.
create table outbox (
    id           bigint generated always as identity primary key,
    -- What consumers deduplicate by. It is random, and unique without an index, which each write of a row would cost.
    event_id     uuid        not null,
    mode         text        not null check (mode in ('live', 'test')),
    account      text        not null,
    type         text        not null,
    receipt_id   uuid        not null,
    effect_key   text        not null,
    data         jsonb       not null,
    created_at   timestamptz not null default now(),
    attempts     integer     not null default 0,
    -- when it may be taken next: its delivery's lease, its retry, or that it stands back behind an older one
    next_at      timestamptz not null default now(),
    last_error   text        not null default '',
    -- the one subscriber that it is for, '' for all
    only_to      text        not null default '',
    -- the subscribers that have taken it, so that a retry asks only the others
    delivered_to text[]      not null default '{}',
    published_at timestamptz
);
create index outbox_unpublished on outbox (mode, account, id) where published_at is null;
create index outbox_due on outbox (next_at, id) where published_at is null;
create index outbox_receipt on outbox (receipt_id);
-- The history of an account's access.
create index outbox_access on outbox (mode, account, id) where type = 'access.changed';

-- Subscribers are told of every task, whoever opens or closes it: in the commit that does. News of one task have its
-- object in the place of the account, which may become known later: so they keep their order.
create function tell_task() returns trigger language plpgsql security definer set search_path = public as $$
declare
    told    text := case when new.state <> 'open' then 'task.closed' when tg_op = 'INSERT' or old.state <> 'open' then 'task.opened' else 'task.due_soon' end;
    receipt uuid;
    event   text;
begin
    select r.id, r.event_id into receipt, event from effects e join receipts r on r.id = e.receipt_id where e.key = new.effect_key;
    insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data)
    values (gen_random_uuid(), new.mode, new.object, told, coalesce(receipt, '00000000-0000-0000-0000-000000000000'), new.effect_key,
            jsonb_strip_nulls(jsonb_build_object(
                'task', new.kind || ':' || new.mode || ':' || new.object, 'kind', new.kind, 'mode', new.mode, 'object', new.object,
                'account', nullif(new.account, ''), 'state', new.state, 'title', new.title,
                'due_by', to_char(new.due_by at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                'hours_left', case told when 'task.due_soon' then new.reminded end, 'source_event', event)));
    return null;
end $$;
create trigger task_opened after insert on tasks for each row when (new.state = 'open') execute function tell_task();
create trigger task_changed after update on tasks for each row
    when (old.state <> new.state or new.state = 'open' and new.reminded > 0 and new.reminded <> old.reminded) execute function tell_task();

-- What people are told: one row for each cause that lasts. It goes when the cause is over.
create table notices (
    cause         text        primary key,
    body          jsonb       not null,
    since         timestamptz not null,
    -- seen_at is when a pass has found it last.
    seen_at       timestamptz not null,
    -- told_at is when people were told of it last, null where quiet hours hold it back; and then it was so severe and so large.
    told_at       timestamptz,
    told_severity text        not null default '',
    told_count    integer     not null default 0
);

-- The messages about causes, one for each sink that is told. A key is told once: it says which cause was told, and when.
create table notice_messages (
    id         bigint generated always as identity primary key,
    sink       text        not null,
    key        text        not null,
    cause      text        not null,
    body       jsonb       not null,
    page       boolean     not null,
    created_at timestamptz not null default now(),
    attempts   integer     not null default 0,
    -- next_at is when it may be taken next: its sending's lease, or its retry. It is 'infinity' once it was given up.
    next_at    timestamptz not null default now(),
    last_error text        not null default '',
    sent_at    timestamptz,
    unique (key, sink)
);
create index notice_messages_unsent on notice_messages (sink, cause, id) where sent_at is null;

-- Imports of what a provider holds. One that was broken off goes on at its cursor; its ID stands for the receipt of its
-- facts.
create table imports (
    id           uuid        primary key default gen_random_uuid(),
    source       text        not null,
    provider     text        not null,
    -- effects_from is when it began, by the modes that it reads. The first of a provider and mode counts: nothing follows
    -- from what had occurred before.
    effects_from jsonb       not null default '{}',
    started_at   timestamptz not null default now(),
    finished_at  timestamptz,
    cursor       jsonb       not null default '{}',
    read         jsonb       not null default '{}'
);
create unique index imports_under_way on imports (source) where finished_at is null;

-- How many requests were made of a provider's API in the newest second that had any, of all processes together. After
-- a crash it is empty, which costs a second's fill.
create unlogged table quotas (
    name     text    primary key,
    second   bigint  not null,
    requests integer not null
);

-- Bulk jobs: one decision of an operator about many events, accounts or tasks. They are fixed when the job is made.
create table jobs (
    -- The ID of the request that made it: repeated, it is the same job.
    id          text             collate "C" primary key check (octet_length(id) between 1 and 100),
    action      text             not null check (action in ('retry', 'skip', 'done', 'approve', 'reject', 'replay', 'run', 'refold', 'reconcile', 'reread', 'announce', 'close-task')),
    -- effect is what the action is narrowed to; '' for all that is not done. reference is what done says of it.
    effect      text             not null default '',
    reference   text             not null default '',
    -- filter is what chose the events, in the words of the command's flags.
    filter      jsonb            not null,
    who         text             not null,
    -- asked_by is who asked for it first, where it took two persons; '' where one was enough.
    asked_by    text             not null default '',
    why         text             not null,
    -- rate is how many events are begun in a second, at most.
    rate        double precision not null check (rate > 0),
    -- money is what the events are about, in minor units by currency.
    money       jsonb            not null default '{}',
    state       text             not null check (state in ('running', 'paused', 'cancelled', 'finished')),
    state_note  text             not null default '',
    -- done, refused and failed count the items with that result.
    items       integer          not null,
    done        integer          not null default 0,
    refused     integer          not null default 0,
    failed      integer          not null default 0,
    created_at  timestamptz      not null default now(),
    changed_at  timestamptz      not null default now(),
    -- started_at is when Temporal took its run; until then a worker's sweep has it started.
    started_at  timestamptz,
    finished_at timestamptz
);
create index jobs_open on jobs (created_at) where state in ('running', 'paused');
create index jobs_unstarted on jobs (created_at) where started_at is null;
create index jobs_newest on jobs (created_at desc, id);

create table job_items (
    job        text        collate "C" not null,
    -- target is the ID of a receipt, with its event's as the name; or an account after its mode.
    target     text        collate "C" not null,
    name       text        not null,
    -- attempts counts those that ended in doubt, with the last one's words in note.
    attempts   integer     not null default 0,
    result     text        not null default '' check (result in ('', 'done', 'refused', 'failed')),
    note       text        not null default '',
    ended_at   timestamptz,
    primary key (job, target)
);
create index job_items_open on job_items (job, attempts, target) where result = '';

-- The tokens of programs. hash is the SHA-256 of one: its text is kept nowhere. A name is never given twice, since the
-- trail of what operators did has it.
create table tokens (
    name       text        collate "C" primary key check (octet_length(name) between 1 and 60),
    hash       bytea       not null unique check (octet_length(hash) = 32),
    role       text        not null,
    -- networks are those that it may be used from; none for all.
    networks   cidr[]      not null default '{}',
    made_by    text        not null,
    made_at    timestamptz not null default now(),
    expires_at timestamptz,
    -- used_at is when it was last used, to the minute.
    used_at    timestamptz,
    revoked_at timestamptz
);

-- The decisions that wait for a second person, since they move money over policy.four_eyes.
create table pending_decisions (
    id         text        collate "C" primary key,
    -- subject names the target as the IDs of requests do. One decision of a verb about it waits at a time.
    subject    text        collate "C" not null,
    -- receipt_id is that of an event, and event_at its updated_at: once that is another one, the row has lapsed.
    receipt_id uuid,
    event_at   timestamptz,
    verb       text        not null,
    target     text        not null,
    args       jsonb       not null,
    asked_by   text        not null,
    why        text        not null,
    -- money is what is decided about, in minor units by currency.
    money      jsonb       not null,
    -- state is the SHA-256 of all that the first person has seen: for anything else, a second one is the first.
    state      bytea       not null check (octet_length(state) = 32),
    asked_at   timestamptz not null default now(),
    until      timestamptz not null,
    unique (subject, verb)
);

-- What operators did. Each row's hash covers the one before it, so that a changed, removed or
-- reordered row shows. A full rewrite shows only against a head that was kept elsewhere.
create table operator_actions (
    id         bigint generated always as identity primary key,
    request_id text        not null unique,
    at         timestamptz not null default now(),
    actor      text        not null,
    action     text        not null,
    target     text        not null,
    reason     text        not null,
    before     jsonb       not null default '{}',
    after      jsonb       not null default '{}',
    -- Two rows never follow the same one: the chain does not fork.
    prev_hash  bytea       not null unique,
    hash       bytea       not null
);
-- What was done about a receipt, and which requests of a source were admitted.
create index operator_actions_receipt on operator_actions ((before ->> 'receipt')) where before ->> 'receipt' is not null;
create index operator_actions_admitted on operator_actions ((before ->> 'source')) where action = 'admit';

-- What follows holds a console to what its people decide: somebody who takes over its process has its database role.

-- Who was shown something of what came in, masked or whole: what is the ID of a receipt or of a rejection. Rows are only
-- added; see trim_looks. xid tells a row that is committed from one that its own transaction may still take back.
create table looks (
    id   bigint generated always as identity primary key,
    what uuid        not null,
    at   timestamptz not null default now(),
    -- who is the person, '' for the command line; role is the database's.
    who  text        not null,
    role text        not null default session_user,
    why  text        not null,
    xid  xid8        not null default pg_current_xact_id()
);
create index looks_what on looks (what, at);
create index looks_who on looks (who, id);

-- trim_looks deletes the oldest looks once they are older than 400 days: whoever looks back at a year finds all of it. No
-- role deletes others.
create function trim_looks() returns void language sql security definer set search_path = '' as $$
with oldest as (select id from public.looks order by id limit 10000)
delete from public.looks l using oldest o where l.id = o.id and l.at < now() - interval '400 days'
$$;

-- looked refuses whoever has not recorded a look, and committed that, within the last minute.
create function looked(about uuid) returns void language plpgsql stable security definer set search_path = '' as $$
begin
    if not exists (select from public.looks where what = about and at > now() - interval '1 minute'
                      and xid is distinct from pg_current_xact_id_if_assigned()) then
        raise insufficient_privilege using message = 'no look at ' || about || ' is recorded: record it, and commit that, before you read';
    end if;
end $$;
create function held_body(receipt uuid) returns bytea language plpgsql stable security definer set search_path = '' as $$
begin
    perform public.looked(receipt);
    return (select b.body from public.held_bodies b where b.receipt_id = receipt);
end $$;
create function kept_request(rejection uuid) returns setof rejections language plpgsql stable security definer set search_path = '' as $$
begin
    perform public.looked(rejection);
    return query select * from public.rejections r where r.id = rejection;
end $$;
-- The bodies as each role may read them.
create view bodies as
select receipt_id, headers, octet_length(body) as size,
       case when has_table_privilege('held_bodies'::regclass, 'select') then body else held_body(receipt_id) end as body
  from held_bodies;

-- The receipts and the rejections whose bodies name a customer by the provider's ID. It reads all of them, and answers for
-- nothing but such an ID.
create function naming(customer text) returns table (what uuid, refused boolean) language sql stable security definer set search_path = '' as $$
select receipt_id, false from public.receipt_bodies
 where customer ~ '^[a-z]+_[A-Za-z0-9_]+$' and position(convert_to('"' || customer || '"', 'UTF8') in body) > 0
union all
select id, true from public.rejections
 where customer ~ '^[a-z]+_[A-Za-z0-9_]+$' and position(convert_to('"' || customer || '"', 'UTF8') in body) > 0
$$;
create function requests_kept(receipts uuid[]) returns bigint language sql stable security definer set search_path = '' as $$
select count(*) from public.effects where receipt_id = any(receipts) and request is not null
$$;

-- decides tells whether this transaction has added to the audit trail.
create function decides(verb text, about text) returns boolean language sql stable security definer set search_path = '' as $$
select coalesce((select xmin = pg_current_xact_id()::xid and verb in (action, '') and about in (target, '') from public.operator_actions order by id desc limit 1), false)
$$;

-- forget erases what a customer has left, beside the decision to do so. It takes addresses out of the answers of outside
-- systems, too: a mail server repeats them. Of the customer's own rows it leaves one that says so, for each account at
-- the provider that the customer was seen at: nothing that comes later is kept in its place.
create function forget(whom text, of_mode text, of_receipts uuid[], refused uuid[]) returns void language plpgsql security definer set search_path = '' as $$
begin
    if not public.decides('forget', whom) then
        raise insufficient_privilege using message = 'the audit trail has no decision to forget ' || whom;
    end if;
    insert into public.addresses as a (customer, mode, provider, provider_account, said, forgotten_at)
    select distinct whom, of_mode, provider, provider_account, '', now() from (
        select provider, provider_account from public.facts where customer = whom and customer <> '' and mode = of_mode
        union select provider, provider_account from public.facts where object = whom and mode = of_mode
        union select provider, provider_account from public.addresses where customer = whom and mode = of_mode) seen
        on conflict (customer, mode, provider, provider_account) do update set email = '', email_hash = null, name = '', locale = '',
           zone = '', said = '', locale_said = '', forgotten_at = now(), updated_at = now();
    update public.invoices set page = '' where customer = whom and customer <> '' and mode = of_mode and page <> '';
    delete from public.receipt_bodies where receipt_id = any(of_receipts);
    update public.effects set request = null, error = regexp_replace(error, '\S+@\S+', '(erased)', 'g')
     where receipt_id = any(of_receipts) and (request is not null or error like '%@%');
    update public.effect_attempts set error = regexp_replace(error, '\S+@\S+', '(erased)', 'g')
     where receipt_id = any(of_receipts) and error like '%@%';
    delete from public.rejections r where r.id = any(refused);
end $$;

-- is_console tells the role of a console: it records looks, and reads no body without.
create function is_console() returns boolean language sql stable as $$
select not has_table_privilege('public.held_bodies'::regclass, 'select') and has_column_privilege('public.looks'::regclass, 'who', 'insert')
$$;
-- decided refuses the commit of what a console has changed without a decision in the audit trail, in the same commit. A
-- preview is rolled back, and is let be. A person's decision says no fact but a person's. What a console takes in is an
-- event that the trail names as admitted.
create function decided() returns trigger language plpgsql security definer set search_path = '' as $$
begin
    if tg_table_name in ('receipts', 'receipt_bodies') and tg_op <> 'DELETE' then
        if exists (select from public.operator_actions a join public.receipts r on a.after -> 'events' ? r.event_id
                    where a.action = 'admit' and a.before ->> 'source' = r.source
                      and r.id = (case tg_table_name when 'receipts' then to_jsonb(new) ->> 'id' else to_jsonb(new) ->> 'receipt_id' end)::uuid) then
            return null;
        end if;
    end if;
    if not public.decides('', '') or tg_table_name = 'receipt_bodies'
       or tg_op = 'INSERT' and (tg_table_name = 'receipts' or tg_table_name = 'facts' and to_jsonb(new) ->> 'origin' <> 'operator') then
        raise insufficient_privilege using message = 'a console changes ' || tg_table_name || ' by what the audit trail has in the same commit alone';
    end if;
    return null;
end $$;
-- The conditions are those of is_console, written out: a statement prepares them anew, and a function would cost it 12 µs.
do $$
declare
    changed text;
begin
    foreach changed in array '{accounts,addresses,due,facts,finance_corrections,grants,invoices,job_items,objects,outbox,pauses,pending_decisions,receipt_bodies,receipts,subscriptions,tasks}'::text[] loop
        execute format($f$create constraint trigger decided after insert or update or delete on %I deferrable initially deferred for each row
            when (not has_table_privilege('public.held_bodies'::regclass, 'select') and has_column_privilege('public.looks'::regclass, 'who', 'insert'))
            execute function decided()$f$, changed);
    end loop;
end $$;
-- A job that was begun, and a token that is used, say so outside of decisions.
create constraint trigger decided after insert or update of state on jobs deferrable initially deferred for each row when (is_console()) execute function decided();
create constraint trigger decided after insert or update of role, networks, expires_at, revoked_at on tokens deferrable initially deferred for each row when (is_console()) execute function decided();
-- Roles are granted what they need; is_console is asked of whoever writes.
revoke execute on function looked, trim_looks, held_body, kept_request, naming, requests_kept, decides, forget from public;
