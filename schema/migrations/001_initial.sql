-- All durable state: receipts, runs, the effect ledger, the billing state, the outbox and the audit trail. This
-- migration only creates tables and locks nothing in use. It is edited in place until the first release and never
-- changed afterwards.

-- One row per event, kept forever. (provider, account, mode, event_id) is the permanent deduplication key. account is
-- '' for a provider without tenants; it is never null, so that the unique key works. The deduplication keys of
-- receipts and effects use the collation "C", which compares bytes: with a language's collation, an upgrade of the C
-- library can change the sort order of an existing index, and an event would be accepted twice.
create table receipts (
    -- A UUIDv7. It sorts by arrival, so lists need no other index.
    id             uuid primary key,
    -- source and the other fields of the event belong to the delivery with the stored bytes: the first delivery, or
    -- the first one to a source that accepts the event.
    source         text        not null,
    provider       text        collate "C" not null,
    account        text        collate "C" not null default '',
    mode           text        not null check (mode in ('live', 'test')),
    event_id       text        collate "C" not null check (octet_length(event_id) between 1 and 200),
    -- identity defines what identifies the event: its ID; its bytes, if no signature covers the ID; or either of
    -- them.
    identity       text        not null check (identity in ('id', 'bytes', 'id_or_bytes')),
    type           text        not null default '',
    object_id      text        not null default '',
    api_version    text        not null default '',
    occurred_at    timestamptz,
    received_at    timestamptz not null,
    body_hash      bytea       not null,
    secret_label   text        not null default '',
    correlation_id text        not null default '',
    -- occurrence and hook are the provider's IDs of the event and of the webhook subscription, if it sends them in
    -- addition to the ID of the delivery. They are not signed.
    occurrence     text        not null default '',
    hook           text        not null default '',
    status         text        not null check (status in
                       ('received', 'processing', 'retrying', 'needs_review', 'dead', 'processed', 'compensated', 'ignored')),
    -- reason explains why a receipt is ignored, parked or dead; '' otherwise. It is a code, or a code followed by ":
    -- " and a text for people. reason_code is that code, for filters, counts and scripts. It is generated, so that it
    -- always matches the reason. A text without a code has an empty reason_code.
    reason         text        not null default '',
    reason_code    text        not null generated always as
                       (coalesce(substring(reason from '^[a-z][a-z0-9]*(?:_[a-z0-9]+)*(?=: |$)'), '')) stored,
    workflow_id    text        not null default '',
    last_error     text        not null default '',
    duplicates     integer     not null default 0,
    -- dispatch_at is when the sweep may start the workflow of a receipt with the status 'received'.
    dispatch_at    timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    -- replayed is set if another event has the same bytes and no signature covers the event ID. The receipt waits for
    -- a review, or is relayed with a mark.
    replayed       boolean     not null default false,
    -- relay_of is the ID of an event that runs for another source's receipt. This receipt only relays it to the
    -- destinations of its own source.
    relay_of       text        collate "C" not null default '',
    -- waits describes a parked run: the accepted decisions and the open effects.
    waits          jsonb,
    -- rerun is set while a replay waits for its start: who requested it, why, and the previous run.
    rerun          jsonb,
    -- fence is the start of the workflow task that wrote the status last, in Temporal's time. It is null if no task
    -- has written it. A write by an older task changes nothing, because a suspended worker may resume a task that
    -- another worker has taken over.
    fence          timestamptz,
    -- event_id comes first, because it is nearly always sufficient for a comparison.
    constraint receipts_event unique (event_id, provider, account, mode)
);
-- These indexes are partial, so that a finished receipt has no entry in them.
create index receipts_to_dispatch on receipts (dispatch_at) where status = 'received';
create index receipts_open on receipts (status, received_at) where status in ('processing', 'retrying', 'needs_review', 'dead');
-- For lists of test mode, which has few events.
create index receipts_test on receipts (id) where mode = 'test';
-- Receipts that wait for the end of their source's pause have dispatch_at = 'infinity'.
create index receipts_paused on receipts (source, id) where status = 'received' and dispatch_at = 'infinity';
-- For lists of receipts with a reason. A healthy event has no entry.
create index receipts_reason on receipts (reason_code, source, type, status, id) where reason_code <> '';
-- For lists by source, type and status. The entry is written when the event ends, not when it is received.
create index receipts_kind on receipts (source, type, status, id) where status in ('processed', 'compensated', 'ignored');
-- For the search of a connected account. Most installations have none.
create index receipts_account on receipts (account, id) where account <> '';
create index receipts_parked_object on receipts (object_id) where status in ('needs_review', 'dead');
-- Finds the same bytes under another unsigned delivery ID (GitHub, Shopify). Hashes are random, so each insert
-- touches a cold page of the index in a large table. Events with a signed ID have no entry.
create index receipts_body_hash on receipts (provider, body_hash) where identity <> 'id';

-- Payloads are a separate table, so that retention and erasure do not change receipts and ledger. There is no foreign
-- key, because it would cost every insert a lookup of the row made by the same statement.
create table receipt_bodies (
    receipt_id uuid primary key,
    -- json instead of jsonb: it is always read as a whole, and storing the text is faster on the accept path.
    headers    json  not null,
    -- The trace context of the delivery. The ingress reads only this header.
    trace      text  generated always as (headers -> 'Traceparent' ->> 0) stored,
    -- body is null for a suspected replay. Its bytes are in the row of the first receipt with the same body_hash.
    body       bytea
);
-- Payloads are small or already compressed, so the accept path spends no CPU on compression.
alter table receipt_bodies alter column body set storage external;

-- The payload of each receipt that still has one. A suspected replay uses the payload of the first receipt with the
-- same bytes.
create view bodies as
select b.receipt_id, b.headers, coalesce(b.body, (
           select o.body from receipts r
             join receipts f on f.provider = r.provider and f.body_hash = r.body_hash and f.identity <> 'id' and not f.replayed
             join receipt_bodies o on o.receipt_id = f.id
            where r.id = b.receipt_id limit 1)) as body
  from receipt_bodies b;

-- Later deliveries of an event. The first delivery is described by the receipt and has no row.
create table redeliveries (
    id           bigint generated always as identity primary key,
    receipt_id   uuid        not null,
    source       text        not null,
    received_at  timestamptz not null,
    body_hash    bytea       not null,
    secret_label text        not null default '',
    -- ignored: this was the first delivery, but its source did not accept the event, and the receipt now belongs to
    -- another source.
    outcome      text        not null default 'duplicate' check (outcome in ('duplicate', 'ignored'))
);
create index redeliveries_receipt on redeliveries (receipt_id);

-- Every authentic delivery. The stored bytes are the bytes of the delivery with the outcome new or replay. The others
-- are duplicates, or were ignored earlier.
create view deliveries as
select id as receipt_id, source, received_at, case when replayed then 'replay' else 'new' end as outcome, body_hash, secret_label
  from receipts
union all
select receipt_id, source, received_at, outcome, body_hash, secret_label
  from redeliveries;

-- The subjects of each event: one row for each provider object in its facts. Lists, searches and sums read this table,
-- so they need no table of the billing state. The transaction that stores facts writes the rows. A later event, a
-- decision or a recomputation that changes the account or the invoice number of an object updates its rows. All columns
-- follow from facts and the state of the objects. For an event without facts, a flow of the configuration writes one row
-- with its account and without an object. The personal data is the provider's customer ID, as in facts, and the account
-- of a flow, which pawl forget erases.
-- There is no foreign key to receipts, because each insert would lock the receipt. Receipts are never deleted.
create table event_subjects (
    receipt_id uuid    not null,
    object     text    not null,
    -- main marks the object that lists show, with its account and amount. A receipt has at most one.
    main       boolean not null,
    -- account is the present account of the object. Until the object has an account, it is the account that the event
    -- names, or the customer.
    account    text    not null default '',
    customer   text    not null default '',
    -- number is the number of the invoice that the object is or belongs to.
    number     text    not null default '',
    -- amount is the amount that the event states, in minor units of currency. Both are null if it states none.
    amount     bigint,
    currency   text,
    primary key (receipt_id, object)
);
-- Receipt IDs sort by arrival, so each index returns the newest events first.
create index event_subjects_object on event_subjects (object, receipt_id);
create index event_subjects_account on event_subjects (account, receipt_id) where account <> '';
create index event_subjects_customer on event_subjects (customer, receipt_id) where customer <> '';
create index event_subjects_number on event_subjects (number, receipt_id) where number <> '';

-- Transmissions of a provider with a signature over only a checksum of the bytes (PayPal): the first bytes under each
-- ID. One row per delivery of such a provider, kept forever.
create table transmissions (
    provider  text  not null,
    id        text  not null check (octet_length(id) between 1 and 200),
    body_hash bytea not null,
    primary key (provider, id)
);

-- Rejected requests with a diagnosis, for operators. Their number per source is limited, and they are deleted soon.
-- The headers include the signature, because admitting a request verifies it again. A token is stored as a hash.
create table rejections (
    id          uuid primary key,
    source      text        not null,
    received_at timestamptz not null,
    class       text        not null,
    detail      text        not null default '',
    -- diagnosis is a list of {code, text}.
    diagnosis   jsonb       not null default '[]',
    -- likely is set if a probe shows that the sender knows a secret.
    likely      boolean     not null default false,
    remote_addr text        not null default '',
    method      text        not null default '',
    query       text        not null default '',
    headers     jsonb       not null,
    body        bytea       not null,
    -- body_size is the number of received bytes. truncated is set if body contains fewer bytes.
    body_size   bigint      not null default 0,
    truncated   boolean     not null default false,
    admitted_at timestamptz
);
create index rejections_recent on rejections (source, received_at desc);

-- Rejections per class and admissions per secret (for "safe to remove"), by source and day. Counts are summed in
-- memory and added every few seconds, so this is the only write that a flood of bad signatures causes. slow counts the
-- admitted requests that were answered late or not committed.
create table source_counts (
    source text        not null,
    what   text        not null check (what in ('refused', 'admitted', 'slow')),
    -- name is the rejection class or the label of the secret; '' for slow.
    name   text        not null,
    day    date        not null,
    count  bigint      not null default 0,
    last   timestamptz not null,
    primary key (source, what, name, day)
);

-- Admitted requests per source and hour. They define the usual rate of a source, to detect its silence.
create table source_hours (
    source text        not null,
    hour   timestamptz not null,
    count  bigint      not null default 0,
    primary key (source, hour)
);

-- Consecutive failures of pawl to accept authentic deliveries, by source. A 2xx response resets the count. Providers
-- disable an endpoint after such failures.
create table source_failures (
    source   text        primary key,
    failures bigint      not null,
    -- since is the time of the first failure, last the time of the latest one.
    since    timestamptz not null,
    last     timestamptz not null
);

-- The result of the latest check of each source's endpoint at its provider.
create table endpoints (
    source    text        primary key,
    looked_at timestamptz not null,
    -- off_since is when the endpoint was last seen enabled before it was disabled. off_until is when it was seen
    -- enabled again.
    off_since timestamptz,
    off_until timestamptz,
    -- findings is a list of {kind, says, since}.
    findings  jsonb       not null
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

-- Interventions in Temporal, read from the histories. A reset is stored with the run that it created.
create table interventions (
    workflow_id text        not null,
    run_id      text        not null,
    what        text        not null check (what in ('cancelled', 'terminated', 'reset')),
    receipt_id  uuid        not null,
    at          timestamptz not null,
    -- who is the identity given to Temporal, and why the reason; '' if unknown.
    who         text        not null default '',
    why         text        not null default '',
    primary key (workflow_id, run_id, what)
);
create index interventions_receipt on interventions (receipt_id);

-- The ledger: one row per business effect. The key identifies the effect, never the run.
create table effects (
    key          text collate "C" primary key check (octet_length(key) <= 500),
    kind         text        not null,
    -- exclusive is a resource that only one claim may hold at a time, e.g. the workspace of an account, so that an
    -- older target never lands after a newer one. '' means none.
    exclusive    text        not null default '',
    state        text        not null check (state in
                     ('claimed', 'done', 'failed', 'uncertain', 'skipped', 'compensated')),
    -- round counts the operator's retries. A claim with a higher round may repeat an effect that had ended.
    round        integer     not null default 0,
    -- generation counts deliberate repeats of an effect that was sent and then refused, or has an unknown outcome.
    -- From 2 on, it is part of the idempotency key.
    generation   integer     not null default 1,
    -- committing marks a claim that has passed the point of no return (the final dot of an e-mail). If its lease
    -- expires in this state, the outcome is unknown and the effect is uncertain.
    committing   boolean     not null default false,
    receipt_id   uuid        not null,
    event_id     text        not null,
    run_id       text        not null,
    -- token fences a claim: a worker that has lost its lease has an older token and can no longer write.
    token        bigint      not null default 1,
    lease_until  timestamptz not null,
    attempts     integer     not null default 1,
    -- failures counts the transient failures of this round, without failures of pawl's own infrastructure.
    -- tried_since is when the first attempt of the round was claimed. Both control the retries of the sink.
    failures     integer     not null default 0,
    tried_since  timestamptz not null default now(),
    -- request contains the exact bytes of the first attempt. Every later attempt sends the same bytes. It is deleted
    -- when the effect is done or skipped.
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
-- For lists of e-mails, newest first. Other effects are not part of it. Its columns change only together with a column of
-- effects_open, so it makes no update of another effect more expensive. Package timeline has the same expressions.
create index effects_emails on effects (
    (split_part(key, ':', 3)), kind,
    (case when state = 'done' or (state = 'compensated' and done_at is not null) then 'sent' when state = 'compensated' then 'taken_back'
          when state = 'uncertain' then 'unclear' when state = 'failed' and error_class <> 'transient' then 'failed'
          when state in ('claimed', 'failed') then 'waiting' else state end),
    (coalesce(done_at, claimed_at)), key)
 where kind in ('receipt-email', 'order-email', 'correction-notice', 'action-required-notice', 'dunning-notice', 'trial-ending-notice',
                'subscription-changed-notice', 'subscription-ended-notice', 'access-ending-notice', 'access-ended-notice');

-- Attempts with their run and outcome. A second event for the same fact has a row 'already_done'. An effect that
-- succeeded at its first attempt has no row; the view attempts contains it.
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
    -- A single index serves both lookups. Every retry and every repeated claim writes a row.
    primary key (receipt_id, id)
);
create index effect_attempts_key on effect_attempts (key);

create view attempts as
select key, generation, receipt_id, run_id, token, outcome, started_at, ended_at, error from effect_attempts
union all
select key, generation, receipt_id, run_id, token, 'done', claimed_at, done_at, ''
  from effects where token = 1 and attempts = 1 and error = '' and state in ('done', 'compensated') and done_at is not null;

-- Runs with an effect that waits until an earlier effect, first, is settled. Settling that effect wakes them.
create table effect_waits (
    key         text collate "C" not null,
    workflow_id text             not null,
    first       text collate "C" not null,
    since       timestamptz      not null default now(),
    primary key (key, workflow_id)
);
create index effect_waits_first on effect_waits (first);

-- Circuit breakers: the sinks that are or were down. One row per sink, shared by all workers.
create table breakers (
    sink     text        primary key,
    open     boolean     not null,
    -- since is when the breaker was opened or closed. reason describes the failure, '' if the breaker is closed. said
    -- is the sink's own text.
    since    timestamptz not null,
    reason   text        not null,
    said     text        not null default '',
    -- The accounts and the events of the failed effects, latest last.
    about    text[]      not null default '{}',
    events   text[]      not null default '{}',
    -- probes counts failed probes. The next probe may run at probe_at.
    probes   integer     not null default 0,
    probe_at timestamptz not null
);

-- The outages of each sink, kept forever, as the receipts of their events. The statement that opens a breaker inserts
-- the row; the statement that closes the breaker sets until.
create table outages (
    id     bigint      generated always as identity primary key,
    sink   text        not null,
    -- since and until are when the breaker was opened and closed. until is null during the outage.
    since  timestamptz not null,
    until  timestamptz,
    -- reason describes the failure that opened the breaker. answer is the sink's own text, without e-mail addresses.
    reason text        not null,
    answer text        not null default ''
);
create index outages_sink on outages (sink, since, id);
create index outages_open on outages (sink) where until is null;

-- The events with an effect that an outage delayed: the effect waited for the sink, or its attempt failed. There are no
-- foreign keys, because each insert would lock the receipt and the outage.
create table outage_events (
    outage     bigint not null,
    receipt_id uuid   not null,
    mode       text   not null check (mode in ('live', 'test')),
    primary key (outage, mode, receipt_id)
);
-- For the outages of one event. A hash index has no order, so Postgres cannot use it to read the events of one outage
-- newest first, which would read the events of all later outages as well.
create index outage_events_receipt on outage_events using hash (receipt_id);

-- The requests of operators that all processes of a kind, or "all" processes, load their configuration files again.
create table reloads (
    id           bigint      generated always as identity primary key,
    process      text        not null check (process in ('ingress', 'worker', 'console', 'all')),
    requested_at timestamptz not null default now(),
    requested_by text        not null
);

-- Current and earlier pauses. While a sink is paused, its effects wait; while a source is paused, its runs wait.
create table pauses (
    id    bigint      generated always as identity primary key,
    kind  text        not null check (kind in ('sink', 'source')),
    name  text        not null,
    since timestamptz not null default now(),
    until timestamptz,
    who   text        not null,
    why   text        not null,
    -- told is set once a process has resumed the effects that waited for the sink.
    told  boolean     not null default false
);
create unique index pauses_now on pauses (kind, name) where until is null;

-- Sessions of the console. The ID is the SHA-256 of the browser's cookie.
create table sessions (
    id         bytea       primary key,
    -- issuer and subject identify the person. The name is for display and may change.
    issuer     text        not null,
    subject    text        not null,
    name       text        not null,
    roles      text[]      not null,
    -- The method of the sign-in.
    via        text        not null check (via in ('password', 'oidc')),
    -- A fingerprint of the password's hash, '' without a password. A change of the password ends the session.
    credential text        not null default '',
    created_at timestamptz not null default now(),
    seen_at    timestamptz not null default now(),
    ends_at    timestamptz not null
);
create index sessions_of_person on sessions (subject, issuer);

-- Scheduled actions: one row for each time at which something changes without a fact. Facts insert and replace rows,
-- and a run executes the rows that are due.
create table due (
    mode             text        not null check (mode in ('live', 'test')),
    -- owner is the object with the facts that write the row: a subscription (also for its invoices), a one-off
    -- purchase, or an account.
    owner            text        not null,
    account          text        not null,
    object           text        not null,
    why              text        not null check (why in ('end', 'grace', 'one_off', 'ending', 'dunning', 'settle', 'book', 'renewal', 'add_on', 'keep', 'hold', 'refold', 'changed')),
    step             integer     not null default 0,
    at               timestamptz not null,
    -- The fact that caused the action. The effects belong to its receipt.
    provider         text        not null,
    provider_account text        not null default '',
    event_id         text        not null,
    receipt_id       uuid        not null,
    occurred_at      timestamptz not null,
    -- next_at is when the sweep takes the row next: at its time, and again later if no run has executed it.
    next_at          timestamptz not null,
    primary key (mode, object, why, at)
);
create index due_next on due (next_at);
create index due_list on due (mode, at, object, why);
create index due_account on due (account, mode, at, object, why);
create index due_owner on due (owner, mode);

-- Tasks for people.
create table tasks (
    mode       text        not null check (mode in ('live', 'test')),
    kind       text        not null,
    object     text        not null,
    account    text        not null default '',
    state      text        not null check (state in ('open', 'done', 'cancelled')),
    title      text        not null,
    effect_key text        not null,
    -- subscription cancels the task when it ends; '' for none.
    subscription text      not null default '',
    -- amount is the money that the task is about, in minor units of currency; '' for none.
    amount     bigint      not null default 0,
    currency   text        not null default '',
    -- due_by is the deadline, or null.
    due_by     timestamptz,
    -- reminded is the number of hours before the deadline at which the last task.due_soon was published, or 0.
    reminded   integer     not null default 0,
    -- taken_by is the person who works on the task, or ''.
    taken_by   text        not null default '',
    -- created_at is when the task was last opened.
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (mode, kind, object)
);
create index tasks_open on tasks (account, mode) where state = 'open';
create index tasks_object on tasks (object);
create index tasks_due on tasks (due_by) where state = 'open' and due_by is not null;
create index tasks_subscription on tasks (subscription, mode) where subscription <> '';

-- Section: billing. Facts and the resulting state. SQL of the core names none of the tables and views in this section;
-- a test enforces it. mode is part of every key, so test and live data never mix.

-- Facts: the statement of one event about one object. Rows are never changed, and are kept when the payload is deleted.
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
    -- rank orders the facts of one object within the same second.
    rank             smallint    not null,
    origin           text        not null check (origin in ('event', 'fetched', 'import', 'operator', 'reread')),
    -- reader is the version of the parser, 0 for a fact that was not parsed. reading is the ID of the re-parse that
    -- produced the fact, '' for the first one.
    reader           smallint    not null default 0,
    reading          text        not null default '',
    -- '{}' in a later reading means that the event states nothing about the object.
    data             jsonb       not null,
    recorded_at      timestamptz not null default now(),
    -- A single index serves both lookups.
    primary key (receipt_id, id)
);
-- Each reading of an event has at most one fact per object. The index also finds the facts of an object.
create unique index facts_once on facts (object, event_id, kind, mode, provider, provider_account, reading);
create index facts_customer on facts (customer) where customer <> '';
-- Facts about charges, which few events have.
create index facts_about_charges on facts (mode) where kind in ('refund_seen', 'dispute_seen', 'warning_seen');
-- An event that was parsed only once has no entry in this index.
create index facts_reread on facts (object, event_id) where reading <> '';

-- The valid facts. If an event was parsed several times, the newest parser version counts, and its last reading.
create view current_facts as
select * from facts f
 where data <> '{}'
   and not exists (select from facts n
                    where n.object = f.object and n.event_id = f.event_id and n.reading <> '' and n.kind = f.kind and n.mode = f.mode
                      and n.provider = f.provider and n.provider_account = f.provider_account and (n.reader, n.id) > (f.reader, f.id));

-- Re-parses of stored payloads.
create table readings (
    id     text        primary key,
    reader smallint    not null,
    who    text        not null,
    why    text        not null,
    at     timestamptz not null default now()
);

-- Versions of the billing rules (plans, prices, accounts and policy), by the hash of their content. A process with
-- other rules in its file than the active ones proposes them repeatedly.
create table billing_rules (
    hash        text        primary key,
    body        jsonb       not null,
    proposed_by text        not null,
    proposed_at timestamptz not null default now()
);
-- The changes of the active billing rules. The newest row is the active version.
create table billing_rules_changes (
    id   bigint      generated always as identity primary key,
    hash text        not null references billing_rules,
    who  text        not null,
    why  text        not null,
    at   timestamptz not null default now()
);

-- The newest known address of each customer. Apart from payloads and the pages of invoices, this table is the only
-- one with personal data. customer is a checkout session if a guest has bought. said and locale_said order updates of
-- the two halves of the row.
create table addresses (
    customer         text        collate "C" not null check (customer <> ''),
    mode             text        not null check (mode in ('live', 'test')),
    provider         text        not null,
    provider_account text        not null default '',
    email            text        not null default '',
    -- email_hash is the SHA-256 of the address in lower case, for searches.
    email_hash       bytea,
    name             text        not null default '',
    said             text        collate "C" not null,
    locale           text        not null default '',
    zone             text        not null default '',
    locale_said      text        collate "C" not null default '',
    -- forgotten_at is when a person erased the customer's data. The row contains no data from then on.
    forgotten_at     timestamptz,
    -- deleted_at is when the provider deleted the customer. No e-mail is sent from then on.
    deleted_at       timestamptz,
    updated_at       timestamptz not null default now(),
    primary key (customer, mode, provider, provider_account)
);
create index addresses_email on addresses (email_hash) where email_hash is not null;

-- The following tables contain the folded state and can be rebuilt from the facts. state is the complete object as
-- JSON; the other columns exist for queries.

create table accounts (
    mode            text        not null check (mode in ('live', 'test')),
    id              text        not null,
    provider        text        not null,
    customer        text        not null default '',
    -- The target of the account's workspace. Each change increases the version.
    target_version  bigint      not null default 0,
    target_state    text        not null default '',
    target_plan     text        not null default '',
    target_quantity bigint      not null default 0,
    target_features text[]      not null default '{}',
    -- All features that the account ever had.
    known_features  text[]      not null default '{}',
    -- held is set while the access of the account is on hold.
    held            boolean     not null default false,
    -- over_at is when the last grant ended. It is null if the account never had one.
    over_at         timestamptz,
    -- folded_at is when facts or scheduled actions were last applied.
    folded_at       timestamptz not null default now(),
    -- reconciled_at is when a job last compared the account with the provider's data, or null.
    reconciled_at   timestamptz,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    primary key (mode, id)
);
create index accounts_customer on accounts (customer, mode) where customer <> '';
create index accounts_alike on accounts (lower(id));
-- For lists. Access changes rarely, and other updates of an account do not touch these indexes.
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
    -- amount is the paid amount, in minor units of the currency.
    amount       bigint      not null,
    currency     text        not null,
    period_start timestamptz not null,
    occurred_at  timestamptz not null,
    -- page is the URL on which the customer can view and pay the invoice. It is not part of any fact, because the
    -- page shows the customer's name.
    page         text        not null default '',
    state        jsonb       not null,
    updated_at   timestamptz not null default now(),
    primary key (mode, id)
);
create index invoices_not_ours on invoices (mode, (coalesce(state ->> 'Named', customer))) where state ? 'NotOurs';
create index invoices_account on invoices (account, mode, occurred_at);
create index invoices_subscription on invoices (subscription, mode, period_start) where subscription <> '';
create index invoices_open on invoices (subscription, mode, period_start) where subscription <> '' and status = 'open';
create index invoices_number on invoices (upper(state ->> 'Number')) where state ->> 'Number' <> '';
create index invoices_amount on invoices (amount, occurred_at);
create index invoices_customer on invoices (customer, mode, occurred_at) where customer <> '';

-- Payments, refunds, disputes, early fraud warnings, credit notes and checkout sessions. A payment is a payment
-- intent, or a charge without one. account is '' as long as it is unknown: a refund contains no customer, and a
-- charge may not contain its invoice. payment, invoice and subscription are the related objects, '' if absent
-- or unknown. The views below show each kind. Amounts are in minor units of the currency.
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
create index objects_unplaced on objects (updated_at) where kind in ('payment', 'refund', 'dispute') and (not state ? 'Purchase' or state ? 'Unexplained');
-- For the search of an amount. The amount of a payment is also the amount of its invoice or session.
create index objects_amount on objects (((state ->> 'Amount')::bigint), updated_at) where kind in ('refund', 'dispute', 'checkout');
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
-- amount is the credited amount without the part that refunds repay.
create view credit_notes as
select mode, id, account, invoice, subscription, customer, state ->> 'Status' as status,
       (state ->> 'Amount')::bigint as amount, state ->> 'Currency' as currency, state, updated_at
  from objects where kind = 'credit_note';
create view checkouts as
select mode, id, account, payment, customer, state ->> 'Status' as status, state ->> 'PaymentStatus' as payment_status,
       (state ->> 'Amount')::bigint as amount, state ->> 'Currency' as currency, state, updated_at
  from objects where kind = 'checkout';

-- Grants: one row for each object that grants access, i.e. a subscription or a one-off purchase.
create table grants (
    mode     text        not null check (mode in ('live', 'test')),
    object   text        not null,
    account  text        not null,
    plan     text        not null,
    quantity bigint      not null default 0,
    add_ons  text[]      not null default '{}',
    -- until is informative. ends is when a scheduled action ends the grant.
    until    timestamptz,
    ends     timestamptz,
    because  text        not null default '',
    -- ended is true if the subscription has ended and still grants access until the end of the paid period.
    ended    boolean     not null default false,
    primary key (mode, object)
);
create index grants_account on grants (account, mode);

-- State that outside systems have acknowledged.

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

create table finance_entries (
    effect_key       text primary key,
    mode             text        not null check (mode in ('live', 'test')),
    -- account is the account of the booking. It does not change if the object moves to another account.
    account          text        not null,
    provider_account text        not null default '',
    object           text        not null,
    invoice          text        not null default '',
    kind             text        not null check (kind in
                         ('payment', 'reversal', 'refund', 'refund_reversal', 'credit', 'credit_reversal', 'dispute', 'correction')),
    amount           bigint      not null,
    tax              bigint      not null default 0,
    currency         text        not null,
    -- The money that moved, in minor units: negative for outgoing money, 0 for a reversal and for movements of the
    -- customer's balance.
    cash             bigint      not null,
    -- settlement is the movement on the provider's balance: amount, fee and net in its currency. It is null if
    -- unknown.
    settlement       jsonb,
    -- settlement_unknown is the reason why a requested settlement is null: not_reported, not_permitted, no_payment or
    -- not_certain.
    settlement_unknown text      not null default '',
    -- method is the way in which the money moved: charge, out_of_band, balance or unknown; '' if kind implies it.
    method           text        not null default '',
    reference        text        not null default '',
    -- occurred_at is when the money moved. created_at is when finance accepted the entry.
    occurred_at      timestamptz not null default now(),
    created_at       timestamptz not null default now()
);
-- For lists and sums by day. A list of all kinds reads the newest entries of each kind. The mode is not the first
-- column: Postgres would use this index for queries about objects, which also select one mode.
create index finance_entries_newest on finance_entries (kind, mode, occurred_at, effect_key);
create index finance_entries_account on finance_entries (account, mode, occurred_at, effect_key);
create index finance_entries_object on finance_entries (object, mode);

-- Entries that a person skipped: money that moved and is not booked. The columns are as in finance_entries.
create table skipped_entries (
    effect_key       text primary key,
    mode             text        not null check (mode in ('live', 'test')),
    account          text        not null,
    provider_account text        not null default '',
    object           text        not null,
    invoice          text        not null default '',
    kind             text        not null,
    amount           bigint      not null,
    tax              bigint      not null default 0,
    currency         text        not null,
    cash             bigint      not null,
    occurred_at      timestamptz not null,
    event_id         text        not null,
    actor            text        not null,
    reason           text        not null,
    -- perhaps_booked is set if finance may have booked the entry before it was skipped.
    perhaps_booked   boolean     not null default false,
    skipped_at       timestamptz not null default now()
);
create index skipped_entries_newest on skipped_entries (mode, occurred_at, effect_key);

-- Corrections that a person requested because a re-parse or other billing rules differ from the booked entry.
create table finance_corrections (
    effect_key       text primary key,
    -- corrects is the effect key of the corrected entry.
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

-- Views for other programs. docs/data.md describes each column. Their names and columns are stable. Their only
-- personal data are the provider's IDs.
create view pawl_accounts as
select a.mode, a.id as account, a.provider, a.customer, coalesce(nullif(a.target_state, ''), 'none') as access,
       a.target_plan as plan, a.target_quantity as quantity, a.target_features as features, a.target_version as version, a.held,
       array(select distinct s.status from subscriptions s where s.mode = a.mode and s.account = a.id and not s.ended and s.status <> ''
              order by s.status) as statuses,
       (select case when bool_and(coalesce(g.ends, g.until) is not null) then max(coalesce(g.ends, g.until)) end from grants g
         where g.mode = a.mode and g.account = a.id and g.plan <> '' and coalesce(g.ends, 'infinity') > now() and not a.held) as ends_at,
       coalesce((select w.version from workspaces w where w.mode = a.mode and w.account = a.id), 0) as workspace_version,
       a.created_at, a.updated_at
  from accounts a;
create view entitlements as
select a.mode, a.id as account, feature, feature = any(a.target_features) as enabled, a.updated_at
  from accounts a cross join unnest(a.known_features) as feature;
create view pawl_features as
select mode, account, feature, enabled, updated_at from entitlements;
create view pawl_subscriptions as
select mode, id as subscription, account, customer, status, plan, quantity, (state ->> 'PeriodEnd')::timestamptz as period_ends_at,
       (state ->> 'EndsAt')::timestamptz as ends_at, (state ->> 'EndedAt')::timestamptz as ended_at, updated_at
  from subscriptions;
create view pawl_invoices as
select mode, id as invoice, coalesce(state ->> 'Number', '') as number, account, customer, subscription, status,
       coalesce((state ->> 'Due')::bigint, 0) as due, coalesce((state ->> 'Paid')::bigint, 0) as paid,
       coalesce((state ->> 'Refunded')::bigint, 0) as refunded, currency, (state ->> 'PeriodStart')::timestamptz as period_starts_at,
       (state ->> 'PeriodEnd')::timestamptz as period_ends_at, (state ->> 'PaidAt')::timestamptz as paid_at, updated_at
  from invoices;
create view pawl_entries as
select effect_key as entry, created_at as booked_at, mode, account, kind, object, invoice, amount, tax, currency, cash, reference,
       occurred_at, method, (settlement ->> 'amount')::bigint as settlement_amount, (settlement ->> 'fee')::bigint as settlement_fee,
       (settlement ->> 'net')::bigint as settlement_net, coalesce(settlement ->> 'currency', '') as settlement_currency, settlement_unknown,
       coalesce((select i.state ->> 'Number' from invoices i where i.mode = e.mode and i.id = coalesce(nullif(e.invoice, ''), e.object)), '') as number,
       provider_account, coalesce((select f.event_id from effects f where f.key = e.effect_key), '') as event
  from finance_entries e;

-- Section: core. Its views for other programs, and its other tables.

create view pawl_tasks as
select mode, kind, object, account, state, title, amount, currency, due_by as due_at, taken_by, created_at as opened_at, updated_at from tasks;
create view pawl_events as
select id as receipt, event_id as event, provider, account as provider_account, mode, source, type, object_id as object, occurred_at,
       received_at, status, reason_code, updated_at
  from receipts;
create view pawl_outages as
select e.mode, e.outage, o.sink, o.since as began_at, o.until as ended_at, o.reason, e.receipt_id as receipt
  from outage_events e join outages o on o.id = e.outage;

-- Internal events, written in the transaction of the change. Order is kept per account: the publisher always takes
-- the oldest unpublished row of an account.
create table outbox (
    id           bigint generated always as identity primary key,
    -- The key with which destinations deduplicate. It is random, so it is unique without an index, which every write
    -- would have to maintain.
    event_id     uuid        not null,
    mode         text        not null check (mode in ('live', 'test')),
    account      text        not null,
    type         text        not null,
    receipt_id   uuid        not null,
    effect_key   text        not null,
    data         jsonb       not null,
    created_at   timestamptz not null default now(),
    attempts     integer     not null default 0,
    -- next_at is when the event may be taken next: the end of a lease or the time of a retry.
    next_at      timestamptz not null default now(),
    last_error   text        not null default '',
    -- only_to is the only destination that gets the event, '' for all.
    only_to      text        not null default '',
    -- delivered_to lists the destinations that have acknowledged the event. A retry skips them.
    delivered_to text[]      not null default '{}',
    published_at timestamptz,
    -- flows_at is when the event got a receipt for the flow that selects it. An event that no flow selects gets it about
    -- an hour after it was published.
    flows_at     timestamptz
);
create index outbox_unpublished on outbox (mode, account, id) where published_at is null;
create index outbox_due on outbox (next_at, id) where published_at is null;
create index outbox_flows on outbox (type, id) where flows_at is null;
create index outbox_passed on outbox (published_at) where flows_at is null and published_at is not null;
create index outbox_receipt on outbox (receipt_id);
-- The history of an account's access.
create index outbox_access on outbox (mode, account, id) where type = 'access.changed';

-- Notifications: one row for each current condition. The row is deleted when the condition ends.
create table notices (
    cause         text        primary key,
    body          jsonb       not null,
    since         timestamptz not null,
    -- seen_at is when a pass last found the condition.
    seen_at       timestamptz not null,
    -- told_at is when people were last notified, null if quiet hours delay it. told_severity and told_count are the
    -- values at that time.
    told_at       timestamptz,
    told_severity text        not null default '',
    told_count    integer     not null default 0
);

-- Notification messages, one per recipient. The key identifies the condition and the time, so each is sent once.
create table notice_messages (
    id         bigint generated always as identity primary key,
    sink       text        not null,
    key        text        not null,
    cause      text        not null,
    body       jsonb       not null,
    page       boolean     not null,
    created_at timestamptz not null default now(),
    attempts   integer     not null default 0,
    -- next_at is when the message may be taken next: the end of a lease or the time of a retry. It is 'infinity'
    -- after the last attempt.
    next_at    timestamptz not null default now(),
    last_error text        not null default '',
    sent_at    timestamptz,
    unique (key, sink)
);
create index notice_messages_unsent on notice_messages (sink, cause, id) where sent_at is null;

-- Imports of a provider's objects. An interrupted import continues at its cursor. Its ID takes the place of a receipt
-- ID in its facts.
create table imports (
    id           uuid        primary key default gen_random_uuid(),
    source       text        not null,
    provider     text        not null,
    started_at   timestamptz not null default now(),
    finished_at  timestamptz,
    cursor       jsonb       not null default '{}',
    read         jsonb       not null default '{}'
);
create unique index imports_under_way on imports (source) where finished_at is null;

-- The time at which effects begin, by mode. An earlier event changes state but has no effects. The first process that
-- serves a mode inserts its row; later only a person changes it.
create table effects_from (
    mode       text        primary key check (mode in ('live', 'test')),
    -- null means that effects are off.
    at         timestamptz,
    changed_at timestamptz not null default now(),
    changed_by text        not null
);

-- Effects, internal events and tasks of events that occurred before effects began.
create table withheld (
    key         text        collate "C" primary key,
    kind        text        not null,
    mode        text        not null check (mode in ('live', 'test')),
    receipt_id  uuid        not null,
    account     text        not null default '',
    amount      bigint,
    currency    text        not null default '',
    -- The internal event or the task that a release writes.
    detail      jsonb,
    withheld_at timestamptz not null default now(),
    released_at timestamptz
);
create index withheld_receipt on withheld (receipt_id) where released_at is null;

-- Requests to a provider's API in the latest second with any, summed over all processes. The table is empty after a
-- crash, which allows at most one additional second's worth.
create unlogged table quotas (
    name     text    primary key,
    second   bigint  not null,
    requests integer not null
);

-- Bulk jobs: one decision about many events, accounts or tasks. The items are fixed when the job is created.
create table jobs (
    -- The ID of the request that created the job. A repeated request returns the same job.
    id          text             collate "C" primary key check (octet_length(id) between 1 and 100),
    action      text             not null check (action in ('retry', 'skip', 'done', 'approve', 'reject', 'replay', 'run', 'recompute', 'reconcile', 'announce', 'close-task', 'release-effects', 'apply-rules')),
    -- effect narrows the action to one effect; '' means all open effects. reference is the reference of the decision
    -- done.
    effect      text             not null default '',
    reference   text             not null default '',
    -- filter contains the flags of the command that selected the events.
    filter      jsonb            not null,
    who         text             not null,
    -- issuer and subject identify the person who created the job; '' for the command line.
    issuer      text             not null default '',
    subject     text             not null default '',
    -- asked_by is the first person of a job that two people approved; '' otherwise.
    asked_by    text             not null default '',
    why         text             not null,
    -- rate is the maximum number of events per second.
    rate        double precision not null check (rate > 0),
    -- money is the total amount of the events, in minor units by currency.
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
    -- started_at is when Temporal accepted the run. Until then, a worker's sweep tries to start it.
    started_at  timestamptz,
    finished_at timestamptz
);
create index jobs_open on jobs (created_at) where state in ('running', 'paused');
create index jobs_unstarted on jobs (created_at) where started_at is null;
create index jobs_newest on jobs (created_at desc, id);

create table job_items (
    job        text        collate "C" not null,
    -- target is the ID of a receipt, with the event ID as the name; or the mode and ID of an account.
    target     text        collate "C" not null,
    name       text        not null,
    -- seen is the last change of the event or task at the time of the decision. Items that changed later are left
    -- out.
    seen       timestamptz,
    -- attempts counts attempts with an unknown outcome. note contains the last message.
    attempts   integer     not null default 0,
    result     text        not null default '' check (result in ('', 'done', 'refused', 'failed')),
    note       text        not null default '',
    ended_at   timestamptz,
    primary key (job, target)
);
create index job_items_open on job_items (job, attempts, target) where result = '';

-- Runs of the retention schedule, with the size of the database after each of them. Rows are deleted after 90 days.
create table retention_runs (
    started_at     timestamptz primary key,
    ended_at       timestamptz not null,
    -- deleted counts the deleted rows by kind.
    deleted        jsonb       not null,
    -- paused_seconds is how long the run waited because deliveries were answered slowly.
    paused_seconds double precision not null,
    -- complete is false if expired rows were left for the next run.
    complete       boolean     not null,
    -- bytes is the size of the database, tables the size of each of its largest tables.
    bytes          bigint      not null,
    tables         jsonb       not null
);

-- API tokens of programs. hash is the SHA-256 of the token, which is not stored itself. A name is never reused,
-- because the audit trail contains it.
create table tokens (
    name       text        collate "C" primary key check (octet_length(name) between 1 and 60),
    hash       bytea       not null unique check (octet_length(hash) = 32),
    role       text        not null,
    -- networks lists the networks from which the token may be used; empty means all.
    networks   cidr[]      not null default '{}',
    made_by    text        not null,
    made_at    timestamptz not null default now(),
    expires_at timestamptz,
    -- used_at is the last use, with a resolution of one minute.
    used_at    timestamptz,
    revoked_at timestamptz
);

-- Decisions that wait for a second person (policy.four_eyes).
create table pending_decisions (
    id         text        collate "C" primary key,
    -- subject identifies the target. At most one decision per verb and target waits at a time.
    subject    text        collate "C" not null,
    -- receipt_id is the receipt of an event, and event_at its updated_at. If that changes, the decision lapses.
    receipt_id uuid,
    event_at   timestamptz,
    verb       text        not null,
    target     text        not null,
    args       jsonb       not null,
    -- asked_by is the name of the first person. asked_issuer and asked_subject identify the person.
    asked_by   text        not null,
    asked_issuer  text     not null,
    asked_subject text     not null,
    why        text        not null,
    -- money is the amount of the target, in minor units by currency.
    money      jsonb       not null,
    -- chosen is the fixed item list of a job, as shown to the first person.
    chosen     jsonb,
    -- state is the SHA-256 of everything that the first person saw. A second person can confirm only the same state.
    state      bytea       not null check (octet_length(state) = 32),
    asked_at   timestamptz not null default now(),
    until      timestamptz not null,
    unique (subject, verb)
);

-- The audit trail. Each row's hash includes the hash of the previous row, so a changed, removed or reordered row is
-- detectable. A complete rewrite is detectable only with a separately stored head.
create table operator_actions (
    id         bigint generated always as identity primary key,
    request_id text        not null unique,
    at         timestamptz not null default now(),
    actor      text        not null,
    -- issuer and subject identify a signed-in person or a token. Both are '' for the command line and for pawl
    -- itself.
    issuer     text        not null default '',
    subject    text        not null default '',
    action     text        not null,
    target     text        not null,
    reason     text        not null,
    -- arguments is the SHA-256 of the request's arguments, so that its ID cannot be reused with other arguments.
    arguments  bytea       not null default '',
    before     jsonb       not null default '{}',
    after      jsonb       not null default '{}',
    -- No two rows have the same predecessor, so the chain cannot fork.
    prev_hash  bytea       not null unique,
    hash       bytea       not null
);
-- For the actions on a receipt, and for the admitted requests of a source.
create index operator_actions_receipt on operator_actions ((before ->> 'receipt')) where before ->> 'receipt' is not null;
create index operator_actions_admitted on operator_actions ((before ->> 'source')) where action = 'admit';
-- For the person who booked a correction of a finance entry.
create index operator_actions_corrected on operator_actions (target, at) where action = 'correct';
-- For the list of people.
create index operator_actions_people on operator_actions (target, id desc)
 where action in ('add-person', 'change-person', 'remove-person');

-- Requests of consoles that workers execute: decisions, previews and views of payloads. The database role of a
-- console can insert requests and read answers. Rows are deleted within two minutes, because an answer may contain a
-- payload.
create table console_requests (
    id       uuid        primary key,
    at       timestamptz not null default now(),
    kind     text        not null check (kind in ('decide', 'preview', 'preview_job', 'examine', 'show_body',
                                              'record_people')),
    -- input is 'null' once the request is answered.
    input    json        not null,
    -- taken_at is when a worker began to execute the request.
    taken_at timestamptz,
    answer   json
);
create index console_requests_waiting on console_requests (at) where taken_at is null;
create index console_requests_at on console_requests (at);

-- Versions of the flows in the configuration, by the hash of their content. A run and its retries keep the version with
-- which the run began.
create table flow_versions (
    hash    text        primary key,
    name    text        not null,
    -- body is the version as JSON: the name and the definition. It contains no secret.
    body    bytea       not null,
    made_at timestamptz not null default now()
);

-- The decisions to continue after the database had lost its last transactions (pawl recover).
create table recoveries (
    at            timestamptz primary key default now(),
    -- The lost time.
    lost_from     timestamptz not null,
    lost_until    timestamptz not null,
    -- Each later version of an account's target is higher than least_version.
    least_version bigint      not null
);
