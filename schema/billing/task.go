package billing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/receipt"
)

// The kinds of tasks about billing rules, names and clocks. Apply opens and closes them.
const (
	// TaskPrice asks to map a price that an account pays for: one task per account and price.
	TaskPrice = receipt.UnknownPrice
	// TaskAccount asks to map a connected account to an account in pawl: one task per connected account.
	TaskAccount = "unknown_account"
	// TaskCurrency asks to check amounts in a currency with an unknown minor unit: one task per currency.
	TaskCurrency = "unknown_currency"
	// TaskAlike asks to check an account ID that differs from another account ID only in upper and lower case.
	TaskAlike = "similar_account"
	// TaskAhead asks to compare the clocks, because the time of an event is in the future.
	TaskAhead = "clock_ahead"
)

// askForPrices opens a task for each unmapped price of the account's subscriptions and paid checkout sessions, once per
// account and price. It cancels the task when none of them has the price any more.
func (a *applying) askForPrices(b *pgx.Batch) {
	var accounts []string
	for _, o := range a.now.List() {
		asks, account := fold.Asks(o)
		asked, was := fold.Asks(a.before[fold.KeyOf(o)])
		repaired := a.how == repairing && (o.Kind() == fold.KindSubscription || o.Kind() == fold.KindCheckout)
		if repaired || account != was && len(asks) > 0 || !slices.Equal(asked, asks) {
			accounts = append(accounts, account, was)
		}
	}
	for _, account := range fact.Unique(accounts) {
		if account != "" {
			b.Queue(askForPricesSQL, a.subject.Mode, account, TaskPrice, a.key)
		}
	}
}

// askForPricesSQL opens and cancels the tasks about unmapped prices of an account. The caller holds the lock on the row
// of the account, which prevents concurrent changes.
const askForPricesSQL = `
with asked as materialized (
    select distinct $2 || ':' || price as object, price
      from (select state from subscriptions where mode = $1 and account = $2 union all
            select state from objects where mode = $1 and account = $2 and kind = 'checkout') o
     cross join lateral jsonb_array_elements_text(state -> 'Asks') price),
over as (
    update tasks set state = 'cancelled', updated_at = now()
     where mode = $1 and kind = $3 and account = $2 and state = 'open' and object not in (select object from asked)
    returning *),
opened as (
    insert into tasks as t (mode, kind, object, account, state, title, effect_key)
    select $1, $3, object, $2, 'open', 'Add price ' || price || ' to plans.prices or plans.ignore: account ' || $2 || ' pays for it', $4
      from asked
        on conflict (mode, kind, object) do update set state = excluded.state, effect_key = excluded.effect_key, taken_by = '',
           created_at = now(), updated_at = now()
     where t.state = 'cancelled'
    returning *),
changed as (select *, 'task.closed' as news from over union all select *, 'task.opened' from opened)` + outbox.TaskNews

// ahead is how far the time of an event may be in the future before a task opens.
const ahead = 5 * time.Minute

// note opens a task about an oddity that does not stop the event: a new account with an ID that is similar to another
// one, or an event with a time in the future.
func (a *applying) note(b *pgx.Batch) {
	s, now := a.subject, time.Time{}
	for _, row := range a.accounts {
		if now = fold.Latest(now, row.Now.UTC()); row.Made {
			b.Queue(alikeSQL, s.Mode, TaskAlike, row.ID, a.key)
		}
	}
	early := s.OccurredAt.Sub(now)
	if now.IsZero() || early <= ahead || a.how != normal || a.facts[0].Origin != fact.FromEvent {
		return
	}
	b.Queue(openTaskSQL, s.Mode, TaskAhead, s.Provider+" "+now.Format(time.DateOnly), "", // one task per day
		fmt.Sprintf("Event %s of %s is %s ahead of pawl's clock. Until that time, it overrides newer events: compare the clocks with pawl doctor",
			s.EventID, s.Provider, early.Round(time.Minute)), a.key, "", "", "")
}

// alikeSQL is written to use the index on the name, and not the one on the mode.
const alikeSQL = `
with changed as (insert into tasks as t (mode, kind, object, account, state, title, effect_key)
select $1, $2, $3, $3, 'open', 'New account ' || $3 || ' differs from ' || string_agg(id, ', ' order by id) ||
       ' only in upper and lower case: correct the name at the provider if they are the same account', $4
  from accounts where lower(id) = lower($3) and mode || '' = $1 and id <> $3 having count(*) > 0
    on conflict (mode, kind, object) do nothing` + outbox.TasksOpened

// openTaskSQL opens the task of a kind about an object. It does not change a task that a person has done, and opens a
// cancelled task again. If the subscription has ended, does not grant plan $8, or if the state $9 has ended (see
// [While]), the task is stored as cancelled.
//
// The statement locks rows in the order of [Apply]. A transaction that ends this state waits for these locks. It then
// finds the new task and cancels it; see endTasksSQL, closeTaskSQL and [applying.welcome].
const openTaskSQL = `
with of as materialized (
    select target_state = 'active' as over from accounts where mode = $1 and id = $4 and $9 = 'suspended' for share),
over as materialized (
    select ended or coalesce(of.over, false)
           or $8 <> '' and (coalesce(state->'Instead'->>'Plan', case when state ? 'Instead' then '' else plan end) <> $8 or status not in ('active', 'trialing', 'past_due')
              or state ?| array['Held', 'Withheld', 'PaidBack'])
           or $9 = 'unsettled' and not state ? 'Unsettled' or $9 = 'partial' and not state ? 'Partial'
           or $9 = 'overdue' and coalesce((state->>'RenewsBy')::timestamptz, 'infinity') > now() as over
      from subscriptions s left join of on true where mode = $1 and id = $7 and id <> '' for share of s),
asked as (
    insert into tasks as t (mode, kind, object, account, state, title, effect_key, subscription)
    values ($1, $2, $3, $4, case when coalesce((select over from over), (select over from of)) then 'cancelled' else 'open' end, $5, $6, $7)
        on conflict (mode, kind, object) do update set state = excluded.state, title = excluded.title, effect_key = excluded.effect_key,
           taken_by = '', created_at = now(), updated_at = now()
     where t.state = 'cancelled'
    returning *),
changed as (select *, 'task.opened' as news from asked where state = 'open')` + outbox.TaskNews

const endTasksSQL = `
with changed as (update tasks t set state = 'cancelled', updated_at = now()
 where mode = $1 and subscription = $2 and subscription <> '' and state = 'open'` + outbox.TasksClosed

const reopenTaskSQL = `
with changed as (update tasks t set state = 'open', taken_by = '', effect_key = $4, created_at = now(), updated_at = now()
 where mode = $1 and kind = $2 and object = $3 and state = (select 'cancelled')` + outbox.TasksOpened

const closeTaskSQL = `
with changed as (update tasks t set state = $4, updated_at = now()
 where mode = $1 and kind = $2 and object = $3 and state = (select 'open')` + outbox.TasksClosed

// wasTask starts a statement that writes one task as "written". The caller holds the lock of the task's account, so
// that no other transaction changes the task.
const wasTask = `
with was as (select state from tasks where mode = $1 and kind = $2 and object = $3),
written as (`

const taskWritten = ` returning t.*),
changed as (
    select written.*, case state when 'open' then 'task.opened' else 'task.closed' end as news
      from written where state <> coalesce((select state from was), 'cancelled'))` + outbox.TaskNews

// settleTaskSQL opens or cancels a task, as the facts require. It does not change a task that a person has done.
const settleTaskSQL = wasTask + `
insert into tasks as t (mode, kind, object, account, state, title, effect_key, due_by, amount, currency) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    on conflict (mode, kind, object) do update set account = excluded.account, title = excluded.title, effect_key = excluded.effect_key, updated_at = now(),
       amount = excluded.amount, currency = excluded.currency, due_by = excluded.due_by, reminded = case when t.due_by = excluded.due_by then t.reminded else 0 end,
       created_at = case when t.state = 'cancelled' and excluded.state = 'open' then now() else t.created_at end,
       taken_by = case t.state when 'cancelled' then '' else t.taken_by end,
       state = case when t.state = 'done' then t.state else excluded.state end` + taskWritten

// reopenDoneSQL opens a task again that a person has done, because an order was refused again or its refund has failed.
const reopenDoneSQL = `
update tasks set state = 'cancelled' where mode = $1 and kind = $2 and object = $3 and state = 'done'`

// remindSQL marks open tasks that are due within 72 hours, and again within 24 hours, and publishes a reminder of each.
const remindSQL = `
with changed as (update tasks t set reminded = case when due_by <= now() + interval '24 hours' then 24 else 72 end, updated_at = now()
 where state = 'open' and due_by > now()
   and (due_by <= now() + interval '72 hours' and reminded = 0 or due_by <= now() + interval '24 hours' and reminded <> 24)
 returning t.*, 'task.due_soon' as news)` + outbox.TaskNews

// RemindOfTasks publishes a reminder of each open task 72 and 24 hours before its deadline. Several processes can call
// it at the same time; each reminder is published once.
func RemindOfTasks(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, remindSQL); err != nil {
		return fmt.Errorf("remind of tasks: %w", err)
	}
	return nil
}
