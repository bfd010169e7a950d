package outbox

// TaskNews is the end of a statement that opens or closes tasks. It publishes each task that the statement returns as
// "changed", with the event type in the column "news". The task and its event are therefore committed together.
//
// The events of a task are ordered by the object of the task and not by its account, because the account may be unknown
// at first.
const TaskNews = `
insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data)
select gen_random_uuid(), t.mode, t.object, t.news, coalesce(r.id, '00000000-0000-0000-0000-000000000000'), t.effect_key,
       jsonb_strip_nulls(jsonb_build_object(
           'task', t.kind || ':' || t.mode || ':' || t.object, 'kind', t.kind, 'mode', t.mode, 'object', t.object,
           'account', nullif(t.account, ''), 'state', t.state, 'title', t.title,
           'amount', nullif(t.amount, 0), 'currency', nullif(t.currency, ''),
           'due_at', to_char(t.due_by at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
           'hours_remaining', case t.news when 'task.due_soon' then t.reminded end, 'source_event', r.event_id))
  from changed t left join effects e on e.key = t.effect_key left join receipts r on r.id = e.receipt_id`

// TasksOpened is the end of a statement that opens tasks and does nothing else. TasksClosed is the end of a statement
// that closes tasks.
const (
	TasksOpened = ` returning t.*, 'task.opened' as news)` + TaskNews
	TasksClosed = ` returning t.*, 'task.closed' as news)` + TaskNews
)
