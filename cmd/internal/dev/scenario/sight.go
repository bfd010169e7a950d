package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// openSQL counts the open work of pawl: events that are neither finished nor parked, due scheduled actions that do not
// belong to a parked event, and unpublished events of the outbox.
const openSQL = `
select (select count(*) from unnest($1::text[]) e
         where not exists (select from receipts r where r.event_id = e and r.provider = 'stripe' and r.mode = $2
                              and r.status not in ('received', 'processing', 'retrying')))
     + (select count(*) from due d join receipts r on r.id = d.receipt_id
         where d.account = $3 and d.mode = $2 and d.at <= $4 and r.status not in ('needs_review', 'dead'))
     + (select count(*) from receipts r join outbox o on o.receipt_id = r.id
         where r.event_id = any($1) and r.mode = $2 and o.published_at is null)`

// parkedSQL omits running events if the step has settled: a scheduled action of a later day runs under the receipt of
// its event, and may begin before the observation.
const parkedSQL = `
select type || ' (' || event_id || ') is ' || status || case when reason <> '' then ': ' || reason else '' end
  from receipts where event_id = any($1) and mode = $2 and status not in ('processed', 'compensated', 'ignored')
   and not ($3 and status in ('received', 'processing', 'retrying')) order by event_id`

// effectsSQL leaves out the effects that apply facts, because they change only the database.
const effectsSQL = `
select e.key, e.kind, e.state from receipts r join effects e on e.receipt_id = r.id
 where r.event_id = any($1) and r.mode = $2 and e.kind not in ('apply-facts', 'apply-due') and e.state <> 'claimed'
 order by e.done_at nulls last, e.key`

// newsSQL leaves out the published events about tasks, because tasks are observed themselves.
const newsSQL = `
select o.id, o.type from receipts r join outbox o on o.receipt_id = r.id
 where r.event_id = any($1) and r.mode = $2 and o.type not like 'task.%' order by o.id`

const tasksSQL = `
select kind || ' ' || object, kind || case state when 'open' then '' else ' ' || state end from tasks t
 where mode = $1 and account = $2 order by created_at`

// sight stores the earlier observations of a scenario, so that each observation contains only changes.
type sight struct {
	account, mode string
	types         map[string]string // event types by event ID
	events        []string          // never nil, because Postgres needs an empty array
	effects       map[string]string // states, by key
	news          int64             // the ID of the last event that was read
	tasks         map[string]string
}

func newSight(l Laid) *sight {
	return &sight{account: l.Account, mode: l.Mode, types: map[string]string{}, events: []string{},
		effects: map[string]string{}, tasks: map[string]string{}}
}

// tell adds events to the observed events.
func (s *sight) tell(events []forge.Event) {
	for _, e := range events {
		if s.types[e.ID] == "" {
			s.types[e.ID] = e.Type
			s.events = append(s.events, e.ID)
		}
	}
}

func (s *sight) open(ctx context.Context, db *pgxpool.Pool, by time.Time) (open int, err error) {
	err = db.QueryRow(ctx, openSQL, s.events, s.mode, s.account, by).Scan(&open)
	return open, err
}

// observe returns the state after a step. settled is false if the step has unfinished work.
func (s *sight) observe(ctx context.Context, db *pgxpool.Pool, step LaidStep, settled bool) (Moment, error) {
	m := Moment{Day: step.Day, What: step.What, Events: []EventRef{}, Effects: []Effect{}, News: []string{},
		Tasks: []string{}}
	for _, e := range step.Events {
		m.Events = append(m.Events, EventRef{e.ID, e.Type})
	}
	if err := s.access(ctx, db, &m); err != nil {
		return m, err
	}
	rows, _ := db.Query(ctx, effectsSQL, s.events, s.mode) // CollectRows returns its error
	effects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Effect])
	if err != nil {
		return m, fmt.Errorf("read the effects: %w", err)
	}
	for _, e := range effects {
		if s.effects[e.Key] != e.State {
			s.effects[e.Key] = e.State
			m.Effects = append(m.Effects, e)
		}
	}
	if err := s.told(ctx, db, &m); err != nil {
		return m, err
	}
	rows, _ = db.Query(ctx, parkedSQL, s.events, s.mode, settled)
	parked, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return m, fmt.Errorf("read what is parked: %w", err)
	}
	for _, text := range parked {
		m.Waiting = text // the newest
	}
	return m, nil
}

// told adds the new published events and the new tasks.
func (s *sight) told(ctx context.Context, db *pgxpool.Pool, m *Moment) error {
	rows, _ := db.Query(ctx, newsSQL, s.events, s.mode) // ForEachRow returns its error
	var id int64
	var text, state string
	if _, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		if id > s.news {
			s.news = id
			m.News = append(m.News, text)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read the news: %w", err)
	}
	rows, _ = db.Query(ctx, tasksSQL, s.mode, s.account)
	if _, err := pgx.ForEachRow(rows, []any{&text, &state}, func() error {
		if s.tasks[text] != state {
			s.tasks[text] = state
			m.Tasks = append(m.Tasks, state)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read the tasks: %w", err)
	}
	return nil
}

func (s *sight) access(ctx context.Context, db *pgxpool.Pool, m *Moment) error {
	a, err := account.Show(ctx, db, account.Name{Mode: s.mode, ID: s.account})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // the account has no data yet
	}
	if err != nil {
		return err
	}
	m.Access = a.Access
	for _, g := range a.Grants {
		if g.Plan != a.Access.Plan {
			continue
		}
		m.Event, m.Until = &EventRef{g.Event, s.types[g.Event]}, g.Until
		if g.Ends != nil {
			m.Until = g.Ends
		}
		for _, sub := range a.Subscriptions {
			if sub.ID == g.Object {
				m.Status, m.Standing = sub.Status, "the subscription "+sub.Standing(time.Now())
			}
		}
	}
	if m.Event == nil && len(a.Subscriptions) > 0 { // explain why the subscription grants nothing
		sub := a.Subscriptions[len(a.Subscriptions)-1]
		m.Event, m.Status, m.Standing = &EventRef{sub.Event, s.types[sub.Event]}, sub.Status, "the subscription "+
			sub.Standing(time.Now())
	}
	if m.Event == nil && len(a.Grants) > 0 { // bought once
		g := a.Grants[len(a.Grants)-1]
		m.Event, m.Standing = &EventRef{g.Event, s.types[g.Event]}, "the time that was paid for is over"
	}
	return nil
}
