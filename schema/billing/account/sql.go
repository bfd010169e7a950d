package account

import (
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/outbox"
)

// findSQL takes the list of modes as a parameter and searches by mode, because the primary keys of most tables start
// with the mode.
const findSQL = `
select mode, id from accounts where id = $1 and mode = any($2)
union select mode, id from accounts where customer = $1 and customer <> '' and mode = any($2)
union select mode, account from subscriptions where id = $1 and account <> '' and mode = any($2)
union select mode, account from subscriptions where customer = $1 and customer <> '' and account <> '' and mode = any($2)
union select mode, account from invoices where id = $1 and account <> '' and mode = any($2)
union select mode, account from invoices where customer = $1 and customer <> '' and account <> '' and mode = any($2)
union select mode, account from invoices where upper(state ->> 'Number') = upper($1) and state ->> 'Number' = $1 and state ->> 'Number' <> '' and account <> '' and mode = any($2)
union select mode, account from objects where id = $1 and account <> '' and mode = any($2)
union select mode, account from objects where ` + ofCharge + ` and account <> '' and mode = any($2)
order by 1, 2`

// ofCharge selects the payment that contains charge $1.
const ofCharge = `kind = 'payment' and state ->> 'Charge' = $1 and state ->> 'Charge' <> ''`

const quotedSQL = `
select id from objects where ` + ofCharge + `
union select customer from addresses where email_hash = $2
union select s.object from finance_entries e join effects f on f.key = e.effect_key join event_subjects s on s.receipt_id = f.receipt_id and s.main
       where e.object = $1 and e.kind = 'dispute'
union select state ->> 'Number' from invoices where upper(state ->> 'Number') = upper($1) and state ->> 'Number' <> ''
order by 1`

const alikeSQL = `select mode, id from accounts where lower(id) = lower($1) and id <> $1 order by 1, 2`

// amountSQL reads the newest invoices, refunds, disputes and checkout sessions with one of the amounts.
const amountSQL = `
select i.id, i.amount, i.currency from unnest($1::bigint[]) a cross join lateral (
    (select id, amount, currency, occurred_at from invoices where amount = a order by occurred_at desc limit $2)
     union all
    (select id, (state ->> 'Amount')::bigint, state ->> 'Currency', updated_at from objects
      where kind in ('refund', 'dispute', 'checkout') and (state ->> 'Amount')::bigint = a order by updated_at desc limit $2)) i
 order by i.occurred_at desc, i.id`

const accountSQL = `
select customer, provider, target_version, target_state, target_plan, target_quantity, target_features, held
  from accounts where mode = $1 and id = $2`

const grantsSQL = `
select object, plan, quantity, add_ons, until, ends, because from grants where mode = $1 and account = $2 order by object`

const subscriptionsSQL = `select state from subscriptions where mode = $1 and account = $2 order by updated_at desc, id`

const invoicesSQL = `select state from invoices where mode = $1 and account = $2 order by occurred_at desc, id limit $3`

const entriesSQL = `
select created_at, kind, object, invoice, amount, tax, currency, reference, cash
  from finance_entries where mode = $1 and account = $2 order by created_at desc, effect_key limit $3`

const cashSQL = `
select sum(cash)::bigint, currency from finance_entries where mode = $1 and account = $2 group by currency order by currency`

const adjustmentsSQL = `
select kind, id, state ->> 'Status', invoice, (state ->> 'Amount')::bigint, state ->> 'Currency' from objects
 where mode = $1 and account = $2 and kind in ('refund', 'dispute', 'credit_note') order by updated_at desc, id limit $3`

const dueSQL = `select at, why, object, step, event_id from due where account = $1 and mode = $2 order by at, object, why`

const workspaceSQL = `
select version, state, plan, quantity, features, updated_at from workspaces where mode = $1 and account = $2`

// whose returns the account of a task. For a review it is looked up by the object: the account of the object can
// change, so the task does not store the account.
const whose = `coalesce(nullif(t.account, ''),
    (select account from invoices where mode = t.mode and id = substring(t.object from '[^:]*$')),
    (select account from subscriptions where mode = t.mode and id = substring(t.object from '[^:]*$')), '')`

// worth joins the money of a task. For an unmapped price it is the last payment of each order of the account with this
// price. If the payments have different currencies, worth contains the largest sum.
const worth = `
 cross join lateral (
    select coalesce(nullif(t.amount, 0), paid.amount, 0) as amount, coalesce(nullif(t.currency, ''), paid.currency, '') as currency
      from (select) one left join lateral (
        select sum(bill.amount)::bigint as amount, bill.currency from (
            select i.amount, i.currency from subscriptions s cross join lateral (
                  select amount, currency from invoices
                   where mode = s.mode and subscription = s.id and subscription <> '' and amount > 0 order by period_start desc limit 1) i
             where s.account = t.account and s.mode = t.mode and s.state -> 'Asks' ? substring(t.object from '[^:]*$')
             union all
            select (o.state ->> 'Amount')::bigint, o.state ->> 'Currency' from objects o
             where o.account = t.account and o.kind = 'checkout' and o.mode = t.mode and o.state -> 'Asks' ? substring(t.object from '[^:]*$')) bill
         where t.kind = 'unknown_price' and t.account <> '' group by bill.currency order by 1 desc limit 1) paid on true) worth`

// taskColumns are the fields of [Task]. They contain the event of the effect that opened the task.
const taskColumns = `t.mode, t.kind, t.object, ` + whose + `, t.title, t.created_at,
       coalesce((select r.event_id from effects e join receipts r on r.id = e.receipt_id where e.key = t.effect_key), ''), t.due_by, t.taken_by, worth.amount, worth.currency, t.state,
       coalesce((select i.state ->> 'Number' from invoices i where i.mode = t.mode and i.id = substring(t.object from '[^:]*$')), '')
  from tasks t` + worth

const tasksSQL = `select ` + taskColumns + ` where t.state = 'open' and t.account in ($1, '') and ` + whose +
	` = $1 and t.mode = $2 order by t.created_at, t.kind, t.object`

// about returns the price or the connected account that the task is about, so that tasks with the same cause can be
// grouped.
const about = `case when t.kind = 'unknown_price' then substring(t.object from '[^:]*$')
                     when t.kind = 'unknown_account' then t.object else '' end`

const openTasksSQL = `
select ` + taskColumns + ` where t.state = 'open' and ($1 = '' or t.mode = $1) and ($2 = '' or t.kind = $2)
   and ($3 = '' or ` + about + ` = $3) and ($4 = '' or ` + whose + ` = $4)
   and ($8 = '' or (coalesce(t.due_by, 'infinity'), t.created_at, t.kind, t.object, t.mode) >
       (select coalesce(a.due_by, 'infinity'), a.created_at, a.kind, a.object, a.mode from tasks a where a.mode = $6 and a.kind = $7 and a.object = $8))
 order by coalesce(t.due_by, 'infinity'), t.created_at, t.kind, t.object, t.mode limit $5`

var countTasksSQL = `
with sums as (
    select t.kind, t.mode, about, worth.currency, count(*) as tasks, min(t.created_at) as oldest, min(t.due_by) as due_by, ` + schema.Total("worth.amount") + ` as amount
      from tasks t cross join lateral (select case when $1 then ` + about + ` else '' end as about) a` + worth + `
     where t.state = 'open'
     group by t.kind, t.mode, about, worth.currency)
select kind, mode, sum(tasks)::int, about, min(oldest), min(due_by),
       jsonb_object_agg(currency, amount) filter (where currency <> '')
  from sums group by kind, mode, about order by mode, min(due_by), min(oldest), kind, about`

const tasksAboutSQL = `select ` + taskColumns + ` where t.object = $1 order by t.mode, t.kind`

const doneSQL = `
with changed as (update tasks t set state = 'done', updated_at = now()
 where mode = $1 and kind = $2 and object = $3 and state = (select 'open')` + outbox.TasksClosed

const takeSQL = `
update tasks set taken_by = $4, updated_at = now() where mode = $1 and kind = $2 and object = $3 and state = (select 'open')`
