package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Traces lists the records about a customer that may contain personal data. Facts, ledger and audit trail contain no
// personal data.
type Traces struct {
	Customer string `json:"customer"`
	Mode     string `json:"mode"`
	// Addresses lists the stored addresses, one per account at the provider. Pages lists the URLs of the customer's
	// invoices.
	Addresses []json.RawMessage `json:"addresses"`
	Pages     []string          `json:"pages"`
	// Bodies lists the payloads of the customer's events. Rejections lists the rejected requests that contain the
	// customer's ID.
	Bodies     []HeldBody `json:"bodies"`
	Rejections []HeldBody `json:"rejections"`
	// Requests counts the stored requests to external systems.
	Requests int `json:"requests"`

	// receipts lists all events about the customer, even if their payload is erased. open lists the events in progress.
	receipts []string
	open     []string
}

// HeldBody is a stored payload. Body is empty until [Traces.Read] reads it.
type HeldBody struct {
	ID         string    `json:"id"`
	EventID    string    `json:"event_id,omitempty"`
	Type       string    `json:"type,omitempty"`
	ReceivedAt time.Time `json:"received_at"`
	Body       string    `json:"body"`
}

// Open lists the events about the customer that are in progress.
func (t *Traces) Open() []string { return t.open }

// ErrNotAtRest means that an event about the customer is in progress. Its run may still need the payload.
var ErrNotAtRest = errors.New("an event about the customer is in progress")

// atRest selects receipts without a run that is active or still has to start.
const atRest = `r.status in ('processed', 'compensated', 'ignored')`

const tracedModesSQL = `
select mode from facts where customer = $1 and customer <> ''
union select mode from facts where object = $1
union select mode from addresses where customer = $1
union select mode from invoices where customer = $1 and customer <> ''
order by 1`

// tracedSQL searches all payloads for the customer's ID. It reads the whole table. That is acceptable, because a
// customer is rarely forgotten.
const tracedSQL = `
select r.id::text, r.event_id, r.type, r.received_at, ` + atRest + `, exists (select from receipt_bodies b where b.receipt_id = r.id) as held from receipts r
 where r.id in (select receipt_id from facts where customer = $1 and customer <> '' and mode = $2
                union select receipt_id from facts where object = $1 and mode = $2
                union select receipt_id from receipt_bodies where ` + names + `)
   and r.mode = $2
 order by r.id`

const tracedAddressesSQL = `
select to_jsonb(a) - '{email_hash,said,locale_said}'::text[] from addresses a where customer = $1 and mode = $2 and forgotten_at is null`

const tracedPagesSQL = `select page from invoices where customer = $1 and customer <> '' and mode = $2 and page <> ''`

// tracedRejectionsSQL searches both modes, because the mode of a rejected request is not verified.
const tracedRejectionsSQL = `
select id::text, received_at from rejections where ` + names + ` order by id`

// names selects payloads that contain the customer's ID.
const names = `$1 ~ '^[a-z]+_[A-Za-z0-9_]+$' and position(convert_to('"' || $1 || '"', 'UTF8') in body) > 0`

const tracedRequestsSQL = `select count(*) from effects where receipt_id = any($1) and request is not null`

const (
	readBodiesSQL     = `select receipt_id::text, body from bodies where receipt_id = any($1)`
	readRejectionsSQL = `select id::text, body from rejections where id = any($1)`
)

// FindTraces returns the records of a customer. customer is the provider's customer ID, or for a guest the checkout
// session ID. mode may be empty if the customer exists in only one mode. It returns nil if the customer is unknown.
func FindTraces(ctx context.Context, db DB, customer, mode string) (*Traces, error) {
	modes, err := schema.Rows(ctx, db, "read customer "+customer, pgx.RowTo[string], tracedModesSQL, customer)
	switch {
	case err != nil:
		return nil, err
	case len(modes) == 0:
		return nil, nil
	case len(modes) > 1 && mode == "":
		return nil, fmt.Errorf("customer %s exists in live and in test mode: add --mode", customer)
	case mode == "":
		mode = modes[0]
	}
	t := &Traces{Customer: customer, Mode: mode, Bodies: []HeldBody{}}
	rows, _ := db.Query(ctx, tracedSQL, customer, mode) // ForEachRow returns its error
	var b HeldBody
	var rests, held bool
	_, err = pgx.ForEachRow(rows, []any{&b.ID, &b.EventID, &b.Type, &b.ReceivedAt, &rests, &held}, func() error {
		if t.receipts = append(t.receipts, b.ID); !rests {
			t.open = append(t.open, b.EventID)
		}
		if held {
			t.Bodies = append(t.Bodies, b)
		}
		return nil
	})
	if err == nil {
		t.Addresses, err = schema.Rows(ctx, db, "read addresses", pgx.RowTo[json.RawMessage], tracedAddressesSQL,
			customer, mode)
	}
	if err == nil {
		t.Pages, err = schema.Rows(ctx, db, "read pages", pgx.RowTo[string], tracedPagesSQL, customer, mode)
	}
	if err == nil {
		t.Rejections, err = schema.Rows(ctx, db, "read rejections", func(row pgx.CollectableRow) (b HeldBody,
			err error) {
			return b, row.Scan(&b.ID, &b.ReceivedAt)
		}, tracedRejectionsSQL, customer)
	}
	if err == nil {
		rows, _ := db.Query(ctx, tracedRequestsSQL, t.receipts)
		t.Requests, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	}
	if err != nil {
		return nil, fmt.Errorf("find the stored data of customer %s: %w", customer, err)
	}
	return t, nil
}

// Read reads the payloads. Call it only after the audit record is written.
func (t *Traces) Read(ctx context.Context, db DB) error {
	for sql, held := range map[string][]HeldBody{readBodiesSQL: t.Bodies, readRejectionsSQL: t.Rejections} {
		ids := make([]string, len(held))
		for i, b := range held {
			ids[i] = b.ID
		}
		rows, _ := db.Query(ctx, sql, ids) // ForEachRow returns its error
		var id string
		var body []byte
		if _, err := pgx.ForEachRow(rows, []any{&id, &body}, func() error {
			held[slices.Index(ids, id)].Body = string(body)
			return nil
		}); err != nil {
			return fmt.Errorf("read the stored data of customer %s: %w", t.Customer, err)
		}
	}
	return nil
}

const openTracesSQL = `select exists (select from receipts r where r.id = any($1) and not (` + atRest + `))`

// AtRest returns [ErrNotAtRest] if a run of one of the events has started in the meantime.
func (t *Traces) AtRest(ctx context.Context, tx pgx.Tx) error {
	var open bool
	if err := tx.QueryRow(ctx, openTracesSQL, t.receipts).Scan(&open); err != nil {
		return fmt.Errorf("forget customer %s: %w", t.Customer, err)
	}
	if open {
		return ErrNotAtRest
	}
	return nil
}
