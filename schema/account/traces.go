package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Traces are the records of a customer that may be personal data. Facts, the ledger and the audit trail hold none.
type Traces struct {
	Customer string `json:"customer"`
	Mode     string `json:"mode"`
	// Addresses are the rows that letters to the customer use: one for each account at the provider. Pages are where
	// the customer sees invoices.
	Addresses []json.RawMessage `json:"addresses"`
	Pages     []string          `json:"pages"`
	// Bodies are those of the events about the customer, Rejections the refused requests that name it.
	Bodies     []HeldBody `json:"bodies"`
	Rejections []HeldBody `json:"rejections"`
	// Requests counts the requests to outside systems that are kept with effects.
	Requests int `json:"requests"`

	// receipts are all events about the customer, with and without a body. open are those that are not at rest.
	receipts []uuid.UUID
	open     []string
}

// HeldBody is what came in.
type HeldBody struct {
	ID         string    `json:"id"`
	EventID    string    `json:"event_id,omitempty"`
	Type       string    `json:"type,omitempty"`
	ReceivedAt time.Time `json:"received_at"`
	Body       string    `json:"body"`
}

// Open lists the events about the customer that are not at rest.
func (t *Traces) Open() []string { return t.open }

// ErrNotAtRest means that an event about a customer is not at rest: its run may need the body.
var ErrNotAtRest = errors.New("an event is not at rest")

// atRest is the condition of a receipt r that no run works on, or waits to.
const atRest = `r.status in ('processed', 'compensated', 'ignored')`

const tracedModesSQL = `
select mode from facts where customer = $1 and customer <> ''
union select mode from facts where object = $1
union select mode from addresses where customer = $1
union select mode from invoices where customer = $1 and customer <> ''
order by 1`

// tracedSQL reads every body: only that tells all events that name a customer, and it is rare that somebody asks.
const tracedSQL = `
select r.id, r.event_id, r.type, r.received_at, ` + atRest + `, b.body from receipts r left join receipt_bodies b on b.receipt_id = r.id
 where r.id in (select receipt_id from facts where customer = $1 and customer <> '' and mode = $2
                union select receipt_id from facts where object = $1 and mode = $2
                union select receipt_id from receipt_bodies where position(convert_to($3, 'UTF8') in body) > 0)
   and r.mode = $2
 order by r.id`

const tracedAddressesSQL = `
select to_jsonb(a) - '{email_hash,said,locale_said}'::text[] from addresses a where customer = $1 and mode = $2 and forgotten_at is null`

const tracedPagesSQL = `select page from invoices where customer = $1 and customer <> '' and mode = $2 and page <> ''`

// tracedRejectionsSQL takes refused requests of any mode: nobody has verified what they say.
const tracedRejectionsSQL = `
select id::text, '', '', received_at, convert_from(body, 'LATIN1') from rejections where position(convert_to($1, 'UTF8') in body) > 0 order by id`

const tracedRequestsSQL = `select count(*) from effects where receipt_id = any($1) and request is not null`

// FindTraces returns the traces of a customer, by the provider's ID; of a guest, by that of the checkout session.
// mode is "live", "test", or "" where it is known in one of them only. It returns nil if nothing was ever heard of
// the customer.
func FindTraces(ctx context.Context, db DB, customer, mode string) (*Traces, error) {
	modes, err := list(ctx, db, pgx.RowTo[string], tracedModesSQL, customer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find customer %s: %w", customer, err)
	case len(modes) == 0:
		return nil, nil
	case len(modes) > 1 && mode == "":
		return nil, fmt.Errorf("customer %s is known in live and in test: add --mode", customer)
	case mode == "":
		mode = modes[0]
	}
	t := &Traces{Customer: customer, Mode: mode, Bodies: []HeldBody{}}
	quoted := `"` + customer + `"`
	rows, _ := db.Query(ctx, tracedSQL, customer, mode, quoted) // ForEachRow returns its error
	var b HeldBody
	var id uuid.UUID
	var rests bool
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &b.EventID, &b.Type, &b.ReceivedAt, &rests, &body}, func() error {
		if t.receipts = append(t.receipts, id); !rests {
			t.open = append(t.open, b.EventID)
		}
		if body != nil {
			b.ID, b.Body = id.String(), string(body)
			t.Bodies = append(t.Bodies, b)
		}
		return nil
	})
	if err == nil {
		t.Addresses, err = list(ctx, db, pgx.RowTo[json.RawMessage], tracedAddressesSQL, customer, mode)
	}
	if err == nil {
		t.Pages, err = list(ctx, db, pgx.RowTo[string], tracedPagesSQL, customer, mode)
	}
	if err == nil {
		t.Rejections, err = list(ctx, db, pgx.RowToStructByPos[HeldBody], tracedRejectionsSQL, quoted)
	}
	if err == nil {
		rows, _ := db.Query(ctx, tracedRequestsSQL, t.receipts)
		t.Requests, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	}
	if err != nil {
		return nil, fmt.Errorf("find what is held of customer %s: %w", customer, err)
	}
	return t, nil
}

const openTracesSQL = `select exists (select from receipts r where r.id = any($1) and not (` + atRest + `))`

const forgetBodiesSQL = `delete from receipt_bodies where receipt_id = any($1)`

// forgetRequestsSQL also takes addresses out of the answers of outside systems: a mail server repeats them.
const (
	forgetRequestsSQL = `
update effects set request = null, error = regexp_replace(error, '\S+@\S+', '(erased)', 'g')
 where receipt_id = any($1) and (request is not null or error like '%@%')`
	forgetErrorsSQL = `
update effect_attempts set error = regexp_replace(error, '\S+@\S+', '(erased)', 'g') where receipt_id = any($1) and error like '%@%'`
)

const forgetRejectionsSQL = `delete from rejections where id::text = any($1)`

const forgetPagesSQL = `update invoices set page = '' where customer = $1 and customer <> '' and mode = $2 and page <> ''`

// forgetAddressesSQL leaves a row that says so, for each account at the provider that the customer was seen at: nothing
// that comes later is kept in its place.
const forgetAddressesSQL = `
insert into addresses as a (customer, mode, provider, provider_account, said, forgotten_at)
select distinct $1, $2, provider, provider_account, '', now() from (
    select provider, provider_account from facts where customer = $1 and customer <> '' and mode = $2
    union select provider, provider_account from facts where object = $1 and mode = $2
    union select provider, provider_account from addresses where customer = $1 and mode = $2) seen
    on conflict (customer, mode, provider, provider_account) do update set email = '', email_hash = null, name = '', locale = '',
       zone = '', said = '', locale_said = '', forgotten_at = now(), updated_at = now()`

// Forget erases traces in tx. The error is [ErrNotAtRest] if an event has begun to run again.
func (t *Traces) Forget(ctx context.Context, tx pgx.Tx) error {
	var open bool
	if err := tx.QueryRow(ctx, openTracesSQL, t.receipts).Scan(&open); err != nil {
		return fmt.Errorf("forget customer %s: %w", t.Customer, err)
	}
	if open {
		return ErrNotAtRest
	}
	rejections := make([]string, len(t.Rejections))
	for i, r := range t.Rejections {
		rejections[i] = r.ID
	}
	b := &pgx.Batch{}
	b.Queue(forgetAddressesSQL, t.Customer, t.Mode)
	b.Queue(forgetPagesSQL, t.Customer, t.Mode)
	for _, sql := range []string{forgetBodiesSQL, forgetRequestsSQL, forgetErrorsSQL} {
		b.Queue(sql, t.receipts)
	}
	b.Queue(forgetRejectionsSQL, rejections)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("forget customer %s: %w", t.Customer, err)
	}
	return nil
}
