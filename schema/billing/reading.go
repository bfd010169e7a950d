package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// A body can be read again: a later reader may find other facts in it. They are appended beside those of the first
// reading, and the folds take the newest reading of each event. One more reading undoes a reading.

// Rereading is one time that kept bodies were read again.
type Rereading struct {
	ID     string
	Reader int
	// Undoes is the reading that it takes back, "" for none.
	Undoes string
	Facts  []Reread
	// Before counts the readings that were there when the facts were compared.
	Before int
}

// Reread is a fact that came out differently. Was is zero where the event had told nothing of the object. Is has no
// data where it tells nothing of it any more.
type Reread struct{ Was, Is fact.Fact }

// Fields names what the two say otherwise, as "Invoice.Paid"; "" alone where one says nothing.
func (r Reread) Fields() []string {
	if r.Was.Data == (fact.Data{}) || r.Is.Data == (fact.Data{}) {
		return []string{""}
	}
	d := Difference{Is: said(r.Was), Folded: said(r.Is)}
	return d.narrow()
}

// said returns what a fact says, by names that tell where it stands.
func said(f fact.Fact) map[string]any {
	data, err := json.Marshal(f.Data)
	var parts map[string]map[string]any
	if err == nil {
		err = json.Unmarshal(data, &parts)
	}
	if err != nil {
		panic(err) // it has nothing that JSON cannot say
	}
	fields := map[string]any{"Customer": f.Customer, "OccurredAt": f.OccurredAt, "Rank": f.Rank}
	for part, of := range parts {
		for name, value := range of {
			fields[part+"."+name] = value
		}
	}
	return fields
}

// CompareReadings compares the newest facts of an event with those that a version of the reader finds in its body,
// and returns those that differ. A fact of a newer reader stays, and so does one that keeps returns true for.
func CompareReadings(was, now []fact.Fact, version int, keeps func(fact.Fact) bool) (differ []Reread) {
	about := func(list []fact.Fact, f fact.Fact) int {
		return slices.IndexFunc(list, func(o fact.Fact) bool { return o.Kind == f.Kind && o.Object == f.Object })
	}
	add := func(was, is fact.Fact) {
		if is.Reader, is.Origin, is.Reading = version, fact.FromReread, ""; was.Reader <= version && !keeps(was) {
			differ = append(differ, Reread{was, is})
		}
	}
	for _, f := range now {
		i := about(was, f)
		if i < 0 {
			add(fact.Fact{}, f)
			continue
		}
		complete(&f, was[i])
		if len(Reread{was[i], f}.Fields()) > 0 {
			add(was[i], f)
		}
	}
	for _, f := range was {
		if about(now, f) < 0 && f.Data != (fact.Data{}) {
			none := f
			none.Data = fact.Data{}
			add(f, none)
		}
	}
	return differ
}

// complete keeps what an earlier reading knew in full where this one knows a part.
func complete(f *fact.Fact, was fact.Fact) {
	if i := f.Invoice; i != nil && was.Invoice != nil && i.Partial && !was.Invoice.Partial {
		i.Lines, i.Partial = was.Invoice.Lines, false
	}
	if c := f.Checkout; c != nil && was.Checkout != nil && len(c.Lines) == 0 {
		c.Lines = was.Checkout.Lines
	}
}

// Kept is an event that was applied, with its newest facts, also those that tell of nothing any more. Its body is nil
// once it is erased.
type Kept struct {
	ID, Account, Mode, EventID, Type string
	BodyHash, Body                   []byte
	Facts                            []fact.Fact `db:"-"`
}

// KeptFilter chooses kept events. Its zero value chooses all.
type KeptFilter struct {
	// Objects and Mode choose the events with facts about one of these objects.
	Objects []string
	Mode    string
	Type    string
	// Since is when they were received at the earliest.
	Since time.Time
	// ReadBy chooses the events with facts that this version of the reader has read, nil for any.
	ReadBy *int
}

// keptAtOnce is how many bodies are in memory at once.
const keptAtOnce = 100

// EachKept calls f for each event of a provider that was applied and passes the filter, the oldest first.
func EachKept(ctx context.Context, db schema.Querier, provider string, filter KeptFilter, f func(Kept) error) error {
	for last := ""; ; {
		page, err := schema.Rows(ctx, db, "read kept events", pgx.RowToStructByPos[Kept], keptSQL, provider, last,
			filter.Objects, filter.Mode, filter.Type, orNull(filter.Since), filter.ReadBy, keptAtOnce)
		if err != nil {
			return err
		}
		var ids []string
		for _, k := range page {
			ids = append(ids, k.ID)
		}
		facts, err := schema.Rows(ctx, db, "read the facts of kept events", scanFact, factsReadSQL, ids)
		if err != nil {
			return err
		}
		for _, k := range page {
			for _, fact := range facts {
				if fact.ReceiptID == k.ID && fact.EventID == k.EventID {
					k.Facts = append(k.Facts, fact)
				}
			}
			if err := f(k); err != nil {
				return err
			}
			last = k.ID
		}
		if len(page) < keptAtOnce {
			return nil
		}
	}
}

// Readings counts the readings, and lists those that undo another.
func Readings(ctx context.Context, db schema.Querier) (count int, undos []string, err error) {
	ids, err := schema.Rows(ctx, db, "read the readings", pgx.RowTo[string], readingsSQL)
	return len(ids), slices.DeleteFunc(ids, func(id string) bool { return id == "" }), err
}

// ErrNoReading means that no reading has that ID.
var ErrNoReading = errors.New("no such reading")

// Undoing returns the reading that undoes another one: its facts are those from before, where nothing newer counts by
// now.
func Undoing(ctx context.Context, db schema.Querier, id string) (r Rereading, err error) {
	r.Undoes = id
	if r.Before, _, err = Readings(ctx, db); err != nil {
		return r, err
	}
	reader, err := one(ctx, db, "reading "+id, pgx.RowTo[*int], readerOfSQL, id)
	if err == nil && reader == nil {
		err = ErrNoReading
	}
	if err != nil {
		return r, err
	}
	r.Reader = *reader
	facts, err := schema.Rows(ctx, db, "read reading "+id, scanFact, undoingSQL, id)
	if err != nil {
		return r, err
	}
	for i := 0; i+1 < len(facts); i += 2 { // each is followed by the one before it
		was, is := facts[i], facts[i+1]
		is.Reader, is.Origin, is.Reading = r.Reader, fact.FromReread, ""
		r.Facts = append(r.Facts, Reread{was, is})
	}
	return r, nil
}

// ErrReadAgain means that bodies were read again since the facts were compared.
var ErrReadAgain = errors.New("bodies were read again meanwhile")

// AppendIn appends the reading in tx, and returns the accounts that its facts are about: "" stands for objects that
// have no account so far. Its error is [ErrReadAgain] where another reading came first.
func (r Rereading) AppendIn(ctx context.Context, tx pgx.Tx, who, why string) (about []Scope, err error) {
	if _, err := tx.Exec(ctx, lockReadingsSQL); err != nil {
		return nil, fmt.Errorf("append reading %s: %w", r.ID, err)
	}
	if count, _, err := Readings(ctx, tx); err != nil {
		return nil, err
	} else if count != r.Before {
		return nil, ErrReadAgain
	}
	if _, err = tx.Exec(ctx, readingSQL, r.ID, r.Reader, r.Undoes, who, why); err == nil {
		err = r.append(ctx, tx)
	}
	if err != nil {
		return nil, fmt.Errorf("append reading %s: %w", r.ID, err)
	}
	return r.about(ctx, tx)
}

// about returns the accounts that the facts are about, once they are appended.
func (r Rereading) about(ctx context.Context, tx pgx.Tx) ([]Scope, error) {
	return schema.Rows(ctx, tx, "read accounts", pgx.RowToStructByPos[Scope], rereadAccountsSQL, r.ID)
}

// append appends the facts.
func (r Rereading) append(ctx context.Context, tx pgx.Tx) error {
	b := &pgx.Batch{}
	for _, f := range r.Facts {
		f.Is.Reading = r.ID
		if err := appendFact(b, f.Is); err != nil {
			return err
		}
	}
	return tx.SendBatch(ctx, b).Close()
}

// read is the condition of facts f that a reader has found in the body of receipt r. A refund that only its charge has
// told of does not count: it follows from several facts.
const read = `f.receipt_id = r.id and f.event_id = r.event_id and f.origin in ('event', 'fetched', 'reread') and f.kind <> 'withheld'
          and f.data -> 'Refund' ->> 'ByCharge' is null`

// keptSQL leaves out receipts that relay an event, and suspected replays.
const keptSQL = `
select r.id::text, r.account, r.mode, r.event_id, r.type, r.body_hash, b.body
  from receipts r left join receipt_bodies b on b.receipt_id = r.id
 where r.provider = $1 and ($2 = '' or r.id > nullif($2, '')::uuid) and not r.replayed and r.relay_of = ''
   and ($3::text[] is null or r.id in (select receipt_id from facts where object = any($3) and mode = $4))
   and ($5 = '' or r.type = $5) and ($6::timestamptz is null or r.received_at >= $6)
   and ($7::int is null or exists (select from current_facts f where ` + read + ` and f.reader = $7))
   and (exists (select from facts f where ` + read + `)
        or exists (select from effects e where e.receipt_id = r.id and e.kind = 'apply-facts' and e.state = 'done'))
 order by r.id limit $8`

const factsReadSQL = `
select ` + factColumns + ` from facts f
 where receipt_id = any($1::uuid[]) and exists (select from receipts r where ` + read + `)
   and not exists (select from facts n where ` + sameFact + ` and n.reading <> '' and ` + later + `)
 order by id`

const readingsSQL = `select case when undoes is null then '' else id end from readings`

const readerOfSQL = `select reader from readings where id = $1`

const lockReadingsSQL = `select pg_advisory_xact_lock(hashtextextended('readings', 0))`

const readingSQL = `insert into readings (id, reader, undoes, who, why) values ($1, $2, nullif($3, ''), $4, $5)`

// sameFact and later compare two readings of one event about one object.
const (
	sameFact = `n.object = f.object and n.event_id = f.event_id and n.kind = f.kind and n.mode = f.mode
            and n.provider = f.provider and n.provider_account = f.provider_account`
	later = `(n.reader, n.id) > (f.reader, f.id)`
)

// undoingSQL returns each fact of a reading that still counts, and after it the one that counted before: one without
// data where there was none.
const undoingSQL = `
select f.provider, f.provider_account, f.mode, f.kind, f.object, said.customer, f.event_id, said.event_type, f.receipt_id::text,
       said.occurred_at, said.rank, said.origin, said.reader, said.reading, said.data
  from facts f
  left join lateral (
      select * from facts n where ` + sameFact + ` and (n.reader, n.id) < (f.reader, f.id)
       order by n.reader desc, n.id desc limit 1) before on true
 cross join lateral (values
      (1, f.customer, f.event_type, f.occurred_at, f.rank, f.origin, f.reader, f.reading, f.data),
      (2, coalesce(before.customer, f.customer), f.event_type, coalesce(before.occurred_at, f.occurred_at),
          coalesce(before.rank, f.rank), f.origin, f.reader, f.reading, coalesce(before.data, '{}'))
      ) said (place, customer, event_type, occurred_at, rank, origin, reader, reading, data)
 where f.reading = $1 and f.reading <> ''
   and not exists (select from facts n where ` + sameFact + ` and n.reading <> '' and ` + later + `)
 order by f.id, said.place`

// placed are the rows of objects that have an account, o.
const placed = `(select mode, id, account from subscriptions union all select mode, id, account from invoices
            union all select mode, id, account from objects union all select mode, customer, id from accounts) o`

const rereadAccountsSQL = `
select distinct f.mode, coalesce(o.account, '') from facts f
  left join ` + placed + ` on o.mode = f.mode and (o.id = f.object collate "default" or o.id = f.customer) and o.account <> ''
 where f.reading = $1 and f.reading <> ''
 order by 1, 2`

// unplacedSQL takes what later readings tell of objects that have no account so far.
const unplacedSQL = `
select ` + factColumns + ` from current_facts f
 where reading <> '' and mode = $1 and not exists (
       select from ` + placed + ` where o.mode = f.mode and o.id = f.object collate "default" and o.account <> '')
 order by id`
