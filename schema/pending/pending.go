// Package pending stores decisions that wait for a second person. A row goes when the decision is made, or is not
// wanted any more: the audit trail has who asked for it, and what came of it.
package pending

import (
	"cmp"
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Decision is a decision that somebody has asked for, and that nobody has made.
type Decision struct {
	ID string `json:"id"`
	// Subject names the target as the IDs of requests do. One decision of a verb about it waits at a time.
	Subject string `json:"-"`
	// Receipt is that of an event, "" for any other target, and EventAt when the event had moved last. The decision has
	// lapsed once it has moved on.
	Receipt string     `json:"receipt,omitempty"`
	EventAt *time.Time `json:"-"`
	Verb    string     `json:"verb"`
	// Target names it to people, as the audit trail does. Args are what the decision says beside it, by the names of
	// the command's flags.
	Target string            `json:"target"`
	Args   map[string]string `json:"args"`
	// AskedBy is the first person, and Why that person's reason.
	AskedBy string `json:"asked_by"`
	Why     string `json:"why"`
	// Money is at stake, in minor units by currency; empty where nobody knows yet.
	Money map[string]int64 `json:"money"`
	// State is a hash of all that it was asked for.
	State   []byte    `json:"-"`
	AskedAt time.Time `json:"asked_at"`
	// Until is when it lapses.
	Until time.Time `json:"until"`
}

// Does is the verb, in words: that of a job is the one that it decides by.
func (d Decision) Does() string { return cmp.Or(d.Args["verb"], d.Verb) }

const (
	// columns leaves out lapsed rows.
	columns = `
select id, subject, coalesce(receipt_id::text, '') as receipt, event_at, verb, target, args, asked_by, why, money, state, asked_at, until
  from pending_decisions p
 where until > now() and not exists (select from receipts r where r.id = p.receipt_id and r.updated_at <> p.event_at)`
	sweepSQL = `delete from pending_decisions where until <= now()`
	// askSQL puts the newest in the place of an older one.
	askSQL = `
insert into pending_decisions (id, subject, receipt_id, event_at, verb, target, args, asked_by, why, money, state, until)
values ($1, $2, nullif($3, '')::uuid, $4, $5, $6, $7, $8, $9, $10, $11, now() + $12::interval)
    on conflict (subject, verb) do update
   set (id, event_at, target, args, asked_by, why, money, state, asked_at, until) =
       (excluded.id, excluded.event_at, excluded.target, excluded.args, excluded.asked_by, excluded.why, excluded.money,
        excluded.state, excluded.asked_at, excluded.until)`
	getSQL   = columns + ` and id = $1`
	listSQL  = columns + ` order by asked_at, id limit 1000`
	aboutSQL = columns + ` and subject = $1 order by asked_at, id`
	endSQL   = `delete from pending_decisions where id = $1 and until > now()`
)

// Ask keeps a decision for so long. It takes the place of an older one of its verb about its subject; those whose time
// is over go with it.
func Ask(ctx context.Context, db schema.DB, d Decision, lasts time.Duration) error {
	if err := schema.Exec(ctx, db, "drop what has lapsed", sweepSQL); err != nil {
		return err
	}
	return schema.Exec(ctx, db, "ask for "+d.Verb+" of "+d.Target, askSQL, d.ID, d.Subject, d.Receipt, d.EventAt,
		d.Verb, d.Target, d.Args, d.AskedBy, d.Why, d.Money, d.State, lasts)
}

// Get returns the decision that waits under an ID, or [schema.ErrNotFound].
func Get(ctx context.Context, db schema.Querier, id string) (Decision, error) {
	return schema.One[Decision](ctx, db, "read the pending decision "+id, getSQL, id)
}

// List returns the decisions that wait, the oldest first.
func List(ctx context.Context, db schema.Querier) ([]Decision, error) {
	return schema.List[Decision](ctx, db, "list pending decisions", listSQL)
}

// About returns those about a subject.
func About(ctx context.Context, db schema.Querier, subject string) ([]Decision, error) {
	return schema.List[Decision](ctx, db, "list pending decisions", aboutSQL, subject)
}

// End drops a decision that is made, or withdrawn. It returns false where it waits no more: of two who end it at once,
// one does.
func End(ctx context.Context, db schema.Execer, id string) (bool, error) {
	return schema.Changes(ctx, db, "end the pending decision "+id, endSQL, id)
}
