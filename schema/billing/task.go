package billing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// The kinds of tasks that follow from facts alone: they are open for as long as the facts say so.
const (
	// TaskDispute is to hand in evidence, TaskInquiry to answer before there is a dispute, TaskWarning to refund what a
	// card's issuer suspects.
	TaskDispute = "dispute"
	TaskInquiry = "inquiry"
	TaskWarning = "fraud_warning"
	// TaskPrice is to say what a price means to us that an account pays for: one task for each account and price.
	TaskPrice = "unknown_price"
	// TaskAccount is to map a connected account to one of ours: one task for each.
	TaskAccount = "unknown_account"
	// TaskCurrency is to look at amounts in a currency whose minor unit pawl does not know: one task for each.
	TaskCurrency = "unknown_currency"
	// TaskAlike is to look at an account whose ID differs from another one's by upper and lower case alone.
	TaskAlike = "similar_account"
	// TaskAhead is to compare the clocks: an event is ahead of ours.
	TaskAhead = "clock_ahead"
	// TaskStuck is to mend what keeps the provider from finalizing an invoice: until then nobody collects it.
	TaskStuck = "finalization_failed"
)

// settledTask is what a task that follows from facts shall be: open or cancelled. A task that a person has done stays
// done.
type settledTask struct {
	Kind, Object, Account, State, Title string
	// DueBy is when it is too late for it, zero for never.
	DueBy time.Time
}

// taskWhile is the task about an object, open while that is so.
func taskWhile(open bool, kind string, about Ref, title string) settledTask {
	t := settledTask{Kind: kind, Object: about.ID, Account: about.Account, State: TaskCancelled, Title: title}
	if open {
		t.State = TaskOpen
	}
	return t
}

// askForPrices asks a person what the prices mean that no mapping knows, once for each account and price, whatever
// subscriptions are of it. The question is over when none of them is.
func (a *applying) askForPrices(b *pgx.Batch) {
	var accounts []string
	for _, s := range each[*Subscription](a.now) {
		was := Subscription{}
		if known := find[*Subscription](a.before, s.ID); known != nil {
			was = *known
		}
		moved := s.Account != was.Account && len(s.Asks) > 0
		if moved || a.how == repairing || !slices.Equal(was.Asks, s.Asks) {
			accounts = append(accounts, s.Account, was.Account)
		}
	}
	for _, account := range set(accounts) {
		if account != "" {
			b.Queue(askForPricesSQL, a.subject.Mode, account, TaskPrice, a.key)
		}
	}
}

// askForPricesSQL opens what an account's subscriptions ask for, and cancels what none asks for any more. The lock on
// the account's row keeps two from doing so at once.
const askForPricesSQL = `
with asked as materialized (
    select distinct $2 || ':' || price as object, price
      from subscriptions cross join lateral jsonb_array_elements_text(state -> 'Asks') price
     where mode = $1 and account = $2 and state ? 'Asks'),
over as (
    update tasks set state = 'cancelled', updated_at = now()
     where mode = $1 and kind = $3 and account = $2 and state = 'open' and object not in (select object from asked))
insert into tasks as t (mode, kind, object, account, state, title, effect_key)
select $1, $3, object, $2, 'open', 'Say what price ' || price || ' means, in plans.prices or plans.ignore: ' || $2 || ' pays for it', $4
  from asked
    on conflict (mode, kind, object) do update set state = excluded.state, effect_key = excluded.effect_key, taken_by = '',
       created_at = now(), updated_at = now()
 where t.state = 'cancelled'`

// ahead is by how much the time of an event may be ahead of our clock before somebody is told.
const ahead = 5 * time.Minute

// note asks a person to look at what no rule decides, and does not wait: an account that is new and written like
// another one, and an event from the future, which counts as the newest until its time has come.
func (a *applying) note(b *pgx.Batch) {
	s, now := a.subject, time.Time{}
	for _, row := range a.accounts {
		if now = latest(now, row.Now.UTC()); row.Made {
			b.Queue(alikeSQL, s.Mode, TaskAlike, row.ID, a.key)
		}
	}
	early := s.OccurredAt.Sub(now)
	if now.IsZero() || early <= ahead || a.how != normal || a.facts[0].Origin != FromEvent {
		return
	}
	b.Queue(openTaskSQL, s.Mode, TaskAhead, s.Provider+" "+now.Format(time.DateOnly), "", // one for each day
		fmt.Sprintf("Event %s of %s is %s ahead of our clock, and counts as the newest until then: compare the clocks with pawl doctor",
			s.EventID, s.Provider, early.Round(time.Minute)), a.key, "", "")
}

// alikeSQL looks for the name by its own index, and not by the mode.
const alikeSQL = `
insert into tasks (mode, kind, object, account, state, title, effect_key)
select $1, $2, $3, $3, 'open', 'Account ' || $3 || ' is new, and differs from ' || string_agg(id, ', ' order by id) ||
       ' by upper and lower case alone: correct the name at the provider if both are one', $4
  from accounts where lower(id) = lower($3) and mode || '' = $1 and id <> $3 having count(*) > 0
    on conflict (mode, kind, object) do nothing`

// openTaskSQL opens the one task of its kind about an object. A task that a person has done stays done; a cancelled
// one is opened again. A task of a subscription asks whether that has ended, or does not grant plan $8 where the task
// welcomes on one, and locks it: whoever ends or changes it meanwhile comes after, and finds the task; see endTasksSQL
// and [applying.welcome].
const openTaskSQL = `
with over as materialized (
    select ended or $8 <> '' and (coalesce(state->'Instead'->>'Plan', case when state ? 'Instead' then '' else plan end) <> $8 or status not in ('active', 'trialing', 'past_due')
              or state ?| array['Held', 'Withheld', 'PaidBack']) as over
      from subscriptions where mode = $1 and id = $7 and id <> '' for share)
insert into tasks as t (mode, kind, object, account, state, title, effect_key, subscription)
values ($1, $2, $3, $4, case when (select over from over) then 'cancelled' else 'open' end, $5, $6, $7)
    on conflict (mode, kind, object) do update set state = excluded.state, title = excluded.title, effect_key = excluded.effect_key,
       taken_by = '', created_at = now(), updated_at = now()
 where t.state = 'cancelled'`

// endTasksSQL cancels what need not be done any more for a subscription that has ended.
const endTasksSQL = `update tasks set state = 'cancelled', updated_at = now() where mode = $1 and subscription = $2 and subscription <> '' and state = 'open'`

const reopenTaskSQL = `
update tasks set state = 'open', taken_by = '', effect_key = $4, created_at = now(), updated_at = now()
 where mode = $1 and kind = $2 and object = $3 and state = (select 'cancelled')`

const closeTaskSQL = `
update tasks set state = $4, updated_at = now() where mode = $1 and kind = $2 and object = $3 and state = (select 'open')`

// settleTaskSQL opens or cancels a task, as the facts say. A task that a person has done stays done.
const settleTaskSQL = `
insert into tasks as t (mode, kind, object, account, state, title, effect_key, due_by) values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (mode, kind, object) do update set account = excluded.account, title = excluded.title, effect_key = excluded.effect_key, updated_at = now(),
       due_by = excluded.due_by, reminded = case when t.due_by = excluded.due_by then t.reminded else 0 end,
       created_at = case when t.state = 'cancelled' and excluded.state = 'open' then now() else t.created_at end,
       taken_by = case t.state when 'cancelled' then '' else t.taken_by end,
       state = case when t.state = 'done' then t.state else excluded.state end`

const askedAccountsSQL = `
select mode, object from tasks where kind = $1 and state = (select 'open') and object = any($2)
 order by mode, object`

// AskedAccounts returns those of these IDs of connected accounts that tasks ask about.
func AskedAccounts(ctx context.Context, db schema.Querier, ids []string) ([]Connected, error) {
	return schema.Rows(ctx, db, "read the tasks of connected accounts", pgx.RowToStructByPos[Connected],
		askedAccountsSQL,
		TaskAccount, ids)
}

// remindSQL marks what has 72 hours left, and again what has 24. The news are written by the table's trigger.
const remindSQL = `
update tasks set reminded = case when due_by <= now() + interval '24 hours' then 24 else 72 end, updated_at = now()
 where state = 'open' and due_by > now()
   and (due_by <= now() + interval '72 hours' and reminded = 0 or due_by <= now() + interval '24 hours' and reminded <> 24)`

// RemindOfTasks tells the subscribers of the open tasks that will be too late soon: 72 and 24 hours before, each once.
// It may be called by several at once.
func RemindOfTasks(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, remindSQL); err != nil {
		return fmt.Errorf("remind of tasks: %w", err)
	}
	return nil
}
