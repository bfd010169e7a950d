package outbox

// TaskNews ends a statement that opens or closes tasks. It publishes the tasks that the statement returns as "changed",
// with the type in "news", so that a task and its event are committed together.
//
// The object of a task orders its events, because the account may become known later.
const TaskNews = `
insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data)
select gen_random_uuid(), t.mode, t.object, t.news, coalesce(r.id, '00000000-0000-0000-0000-000000000000'), t.effect_key,
       jsonb_strip_nulls(jsonb_build_object(
           'task', t.kind || ':' || t.mode || ':' || t.object, 'kind', t.kind, 'mode', t.mode, 'object', t.object,
           'account', nullif(t.account, ''), 'state', t.state, 'title', t.title,
           'amount', nullif(t.amount, 0), 'currency', nullif(t.currency, ''),
           'due_by', to_char(t.due_by at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
           'hours_left', case t.news when 'task.due_soon' then t.reminded end, 'source_event', r.event_id))
  from changed t left join effects e on e.key = t.effect_key left join receipts r on r.id = e.receipt_id`

// TasksOpened ends a statement that opens every task that it changes, TasksClosed one for closing tasks.
const (
	TasksOpened = ` returning t.*, 'task.opened' as news)` + TaskNews
	TasksClosed = ` returning t.*, 'task.closed' as news)` + TaskNews
)
