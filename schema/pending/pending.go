// Package pending stores decisions that wait for a second person. A row is deleted when the decision is made or
// withdrawn; the audit trail records the request and its outcome.
package pending

import (
	"cmp"
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Decision is a requested decision that waits for a second person.
type Decision struct {
	ID string `json:"id"`
	// Subject identifies the target of the decision, as request IDs do. There is at most one waiting decision per verb
	// and subject.
	Subject string `json:"-"`
	// Receipt is the receipt of an event, or "" for any other target. EventAt is when the event was last changed. If
	// the event changes again, the decision expires.
	Receipt string     `json:"receipt,omitempty"`
	EventAt *time.Time `json:"-"`
	// Account is the account of the event. It is empty for any other target, and if the account is unknown.
	Account string `json:"account,omitempty"`
	Verb    string `json:"verb"`
	// Target is the name of the target for people, as in the audit trail. Args are the other arguments of the decision,
	// named like the flags of the command.
	Target string            `json:"target"`
	Args   map[string]string `json:"args"`
	// AskedBy is the name of the first person, and Reason the reason that this person gave. AskedIssuer and
	// AskedSubject identify the person.
	AskedBy      string `json:"requested_by"`
	AskedIssuer  string `json:"requested_issuer"`
	AskedSubject string `json:"requested_subject"`
	Reason       string `json:"reason"`
	// Money is the amount of the target, in minor units by currency.
	Money map[string]int64 `json:"money"`
	// Chosen is the list of items of a job, encoded by the code that creates the job. Only [GetWhole] reads it.
	Chosen []byte `json:"-"`
	// State is a hash of all data that the first person saw, so that a later change of this data can be detected.
	State   []byte    `json:"-"`
	AskedAt time.Time `json:"requested_at"`
	// Until is when the decision expires.
	Until time.Time `json:"expires_at"`
}

// Action returns the verb for display. For a job, it is the verb that the job applies to its items.
func (d Decision) Action() string { return cmp.Or(d.Args["verb"], d.Verb) }

const (
	fields = `
select id, subject, coalesce(receipt_id::text, '') as receipt, event_at,
       coalesce((select s.account from event_subjects s where s.receipt_id = p.receipt_id and s.main limit 1), '') as account, verb, target, args, asked_by, asked_issuer, asked_subject, why as reason, money, state,
       asked_at, until, `
	// waiting omits expired rows.
	waiting = `
  from pending_decisions p
 where until > now() and not exists (select from receipts r where r.id = p.receipt_id and r.updated_at <> p.event_at)`
	columns  = fields + `null::jsonb as chosen` + waiting
	sweepSQL = `delete from pending_decisions where until <= now()`
	// replaceSQL deletes the row that the new row replaces. It also deletes a row for the same subject and verb if the
	// event has changed since the row was stored: that decision has expired.
	replaceSQL = `
delete from pending_decisions p where subject = $1 and verb = $2
   and (id = $3 or exists (select from receipts r where r.id = p.receipt_id and r.updated_at <> p.event_at))`
	askSQL = `
insert into pending_decisions (id, subject, receipt_id, event_at, verb, target, args, asked_by, asked_issuer, asked_subject, why, money, chosen, state, until)
values ($1, $2, nullif($3, '')::uuid, $4, $5, $6, $7, $8, $9, $10, $11, coalesce($12::jsonb, '{}'), $13, $14, now() + $15::interval)
    on conflict (subject, verb) do nothing`
	getSQL   = columns + ` and id = $1`
	wholeSQL = fields + `chosen` + waiting + ` and id = $1`
	listSQL  = columns + ` order by asked_at, id limit 1000`
	aboutSQL = columns + ` and subject = $1 order by asked_at, id`
	endSQL   = `delete from pending_decisions where id = $1 and until > now()`
)

// Ask stores a decision, which expires after the time lasts. If replaces is an ID, the new decision replaces the
// decision with this ID. Ask returns false if another decision with the same verb and subject is waiting. It also
// deletes expired decisions.
func Ask(ctx context.Context, db schema.DB, d Decision, lasts time.Duration, replaces string) (bool, error) {
	if err := schema.Exec(ctx, db, "delete lapsed decisions", sweepSQL); err != nil {
		return false, err
	}
	doing := "ask for " + d.Verb + " of " + d.Target
	if err := schema.Exec(ctx, db, doing, replaceSQL, d.Subject, d.Verb, replaces); err != nil {
		return false, err
	}
	return schema.Changes(ctx, db, doing, askSQL, d.ID, d.Subject, d.Receipt, d.EventAt, d.Verb, d.Target, d.Args,
		d.AskedBy, d.AskedIssuer, d.AskedSubject, d.Reason, d.Money, d.Chosen, d.State, lasts)
}

// Get returns the waiting decision with an ID, or [schema.ErrNotFound].
func Get(ctx context.Context, db schema.Querier, id string) (Decision, error) {
	return schema.One[Decision](ctx, db, "read the pending decision "+id, getSQL, id)
}

// GetWhole is like [Get], but also reads the list of a job.
func GetWhole(ctx context.Context, db schema.Querier, id string) (Decision, error) {
	return schema.One[Decision](ctx, db, "read the pending decision "+id, wholeSQL, id)
}

// List returns the waiting decisions, the oldest first.
func List(ctx context.Context, db schema.Querier) ([]Decision, error) {
	return schema.List[Decision](ctx, db, "list pending decisions", listSQL)
}

// About returns the waiting decisions about a subject.
func About(ctx context.Context, db schema.Querier, subject string) ([]Decision, error) {
	return schema.List[Decision](ctx, db, "list pending decisions", aboutSQL, subject)
}

// End deletes a decision that was made or withdrawn. It returns false if the decision does not wait any more. If two
// callers call End at the same time, it returns true to one of them.
func End(ctx context.Context, db schema.Execer, id string) (bool, error) {
	return schema.Changes(ctx, db, "end the pending decision "+id, endSQL, id)
}
