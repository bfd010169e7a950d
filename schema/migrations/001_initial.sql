-- Everything durable: receipts, runs, the effect ledger, the application state that effects
-- converge on, the outbox, and what operators did. Creates tables only; locks nothing in use.
-- Forward only: this file is never edited once it has landed.

-- One row per event, for ever: (provider, account, mode, event_id) is the permanent authority on
-- "have we got this already". account is '' where the provider has no tenants, never null, so
-- that the unique key holds.
create table receipts (
    -- A UUIDv7: its order is that of arrival, so that lists need no index of their own.
    id             uuid primary key,
    source         text        not null,
    provider       text        not null,
    account        text        not null default '',
    mode           text        not null check (mode in ('live', 'test')),
    event_id       text        not null check (octet_length(event_id) between 1 and 200),
    id_origin      text        not null check (id_origin in ('body', 'header', 'hash')),
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
    -- reason says in words why a receipt is ignored, parked or dead; '' while nothing is wrong.
    reason         text        not null default '',
    workflow_id    text        not null default '',
    last_error     text        not null default '',
    duplicates     integer     not null default 0,
    -- dispatch_at is when the sweep may start the workflow of a receipt that is still 'received'.
    dispatch_at    timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    unique (provider, account, mode, event_id)
);
-- Partial, so that a finished receipt costs these indexes nothing.
create index receipts_to_dispatch on receipts (dispatch_at) where status = 'received';
create index receipts_open on receipts (status, received_at) where status in ('processing', 'retrying', 'needs_review', 'dead');
-- Finds the same bytes under another unsigned delivery ID (GitHub, Shopify). Hashes fall anywhere in
-- an index, so that each insert of a large table touches a cold page of it; events whose ID stands
-- in the signed body do not pay for that.
create index receipts_body_hash on receipts (provider, body_hash) where id_origin <> 'body';

-- Bodies stand apart so that retention and erasure leave the receipt and the ledger standing.
-- No foreign key: it would cost every insert a lookup in the same statement that made the row.
create table receipt_bodies (
    receipt_id uuid primary key,
    -- json and not jsonb: it is read back as a whole, and keeping the text costs the accept path less.
    headers    json  not null,
    body       bytea not null
);
-- Bodies are compressed by the provider or small; spend no CPU on the accept path.
alter table receipt_bodies alter column body set storage external;

create table deliveries (
    id           bigint generated always as identity primary key,
    receipt_id   uuid        not null,
    source       text        not null,
    received_at  timestamptz not null,
    outcome      text        not null check (outcome in ('new', 'duplicate', 'replay')),
    body_hash    bytea       not null,
    secret_label text        not null default ''
);
create index deliveries_receipt on deliveries (receipt_id);

-- What was refused: bounded in number per source and short-lived, with the diagnosis. For
-- operators only; nothing in it was ever admitted. Headers are kept whole, secrets included, because
-- the request is verified again when an operator admits it.
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

-- How often each class was refused, per source and day: the only write that a flood of bad
-- signatures costs, summed in memory and added every few seconds.
create table rejection_counts (
    source text   not null,
    class  text   not null,
    day    date   not null,
    count  bigint not null default 0,
    primary key (source, class, day)
);

-- Which secret admits how much, for "safe to remove".
create table secret_uses (
    source    text        not null,
    label     text        not null,
    uses      bigint      not null default 0,
    last_used timestamptz not null,
    primary key (source, label)
);

create table runs (
    workflow_id     text        not null,
    run_id          text        not null,
    receipt_id      uuid        not null,
    kind            text        not null check (kind in ('original', 'replay', 'reset')),
    requested_by    text        not null default '',
    reason          text        not null default '',
    previous_run_id text        not null default '',
    started_at      timestamptz not null default now(),
    closed_at       timestamptz,
    outcome         text        not null default '',
    primary key (workflow_id, run_id)
);
create index runs_receipt on runs (receipt_id);

-- The ledger: one row per business effect. The key names the effect, never the run.
create table effects (
    key          text primary key check (octet_length(key) <= 500),
    kind         text        not null,
    -- exclusive names what only one claim at a time may touch (one account's workspace), so that
    -- an older target state cannot land after a newer one; '' for nothing.
    exclusive    text        not null default '',
    state        text        not null check (state in
                     ('claimed', 'done', 'failed', 'uncertain', 'skipped', 'compensating', 'compensated')),
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
    workflow_id  text        not null,
    run_id       text        not null,
    -- token fences a claim: a worker that lost its lease carries an older one and can no longer write.
    token        bigint      not null default 1,
    lease_until  timestamptz not null,
    attempts     integer     not null default 1,
    -- failures counts the transient failures of this round; infrastructure trouble does not count.
    failures     integer     not null default 0,
    -- request holds the exact bytes of the first attempt: every later one sends the same.
    request      bytea,
    result       jsonb,
    error        text        not null default '',
    error_class  text        not null default '' check (error_class in ('', 'transient', 'exhausted', 'permanent', 'uncertain')),
    claimed_at   timestamptz not null default now(),
    done_at      timestamptz
) with (fillfactor = 85);
create unique index effects_exclusive on effects (exclusive) where state = 'claimed' and exclusive <> '';
create index effects_receipt on effects (receipt_id);
create index effects_open on effects (state, lease_until) where state in ('claimed', 'failed', 'uncertain', 'compensating');

-- What was tried, by which run, and what came of it. A second event for the same fact leaves its
-- 'already_done' here: that is its evidence.
create table effect_attempts (
    id         bigint generated always as identity primary key,
    key        text        not null,
    generation integer     not null,
    receipt_id uuid        not null,
    run_id     text        not null,
    token      bigint      not null,
    outcome    text        not null check (outcome in
                   ('done', 'failed', 'uncertain', 'already_done', 'skipped')),
    started_at timestamptz not null,
    ended_at   timestamptz not null default now(),
    error      text        not null default ''
);
create index effect_attempts_key on effect_attempts (key);
create index effect_attempts_receipt on effect_attempts (receipt_id);

-- The application state that effects converge on. mode is part of every key: test and live never meet.

create table accounts (
    mode       text        not null check (mode in ('live', 'test')),
    id         text        not null,
    provider   text        not null,
    customer   text        not null default '',
    created_at timestamptz not null default now(),
    primary key (mode, id)
);
create unique index accounts_customer on accounts (mode, provider, customer) where customer <> '';

create table subscriptions (
    mode        text        not null check (mode in ('live', 'test')),
    id          text        not null,
    account     text        not null,
    status      text        not null,
    plan        text        not null default '',
    period_end  timestamptz,
    -- The fence: an event may only write when its fence_at does not go back.
    fence_at    timestamptz not null,
    fence_event text        not null,
    updated_at  timestamptz not null default now(),
    primary key (mode, id)
);
create index subscriptions_account on subscriptions (mode, account);

create table invoices (
    mode         text        not null check (mode in ('live', 'test')),
    id           text        not null,
    account      text        not null,
    subscription text        not null default '',
    status       text        not null,
    plan         text        not null default '',
    amount       bigint      not null,
    currency     text        not null,
    period_start timestamptz,
    period_end   timestamptz,
    paid_at      timestamptz,
    fence_at     timestamptz not null,
    fence_event  text        not null,
    updated_at   timestamptz not null default now(),
    primary key (mode, id)
);

create table entitlements (
    mode       text        not null check (mode in ('live', 'test')),
    account    text        not null,
    feature    text        not null,
    enabled    boolean     not null,
    invoice    text        not null,
    updated_at timestamptz not null default now(),
    primary key (mode, account, feature)
);

create table workspaces (
    mode       text        not null check (mode in ('live', 'test')),
    account    text        not null,
    plan       text        not null,
    state      text        not null check (state in ('active', 'released')),
    effect_key text        not null,
    updated_at timestamptz not null default now(),
    primary key (mode, account)
);

create table onboarding_tasks (
    mode         text        not null check (mode in ('live', 'test')),
    account      text        not null,
    period_start timestamptz not null,
    state        text        not null check (state in ('open', 'done', 'cancelled')),
    title        text        not null,
    effect_key   text        not null,
    created_at   timestamptz not null default now(),
    primary key (mode, account, period_start)
);

create table finance_entries (
    effect_key text primary key,
    mode       text        not null check (mode in ('live', 'test')),
    account    text        not null,
    invoice    text        not null,
    kind       text        not null check (kind in ('payment', 'reversal')),
    amount     bigint      not null,
    currency   text        not null,
    reference  text        not null default '',
    created_at timestamptz not null default now()
);

-- Internal events, written in the transaction of the change that they announce. Order is kept
-- per account: the relay only ever takes the oldest unpublished row of an account.
create table outbox (
    id           bigint generated always as identity primary key,
    event_id     uuid        not null unique,
    mode         text        not null check (mode in ('live', 'test')),
    account      text        not null,
    type         text        not null,
    receipt_id   uuid        not null,
    effect_key   text        not null,
    data         jsonb       not null,
    created_at   timestamptz not null default now(),
    attempts     integer     not null default 0,
    next_at      timestamptz not null default now(),
    last_error   text        not null default '',
    -- the subscribers that have taken it, so that a retry asks only the others
    delivered_to text[]      not null default '{}',
    published_at timestamptz
);
create index outbox_unpublished on outbox (mode, account, id) where published_at is null;
create index outbox_receipt on outbox (receipt_id);

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
    prev_hash  bytea       not null,
    hash       bytea       not null
);
