package timeline

import (
	"cmp"
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Subject names the customer, the invoice and the amount of an event. A field is empty if the event does not contain
// it.
type Subject struct {
	// Object is the ID of the provider's object.
	Object string `json:"object"`
	// Account is the account in pawl, or the customer if the account is unknown.
	Account  string `json:"account"`
	Customer string `json:"customer"`
	// Number is the invoice number.
	Number string `json:"number"`
	// Amount is in minor units of Currency. It is nil if the event has no amount.
	Amount   *int64 `json:"amount"`
	Currency string `json:"currency"`
}

const subjectsSQL = `
select object, account, customer, number, amount, coalesce(currency, '') as currency
  from event_subjects where receipt_id = $1::uuid order by main desc, amount is null, object limit 20`

// SubjectOf returns the subject of a receipt. If the main object lacks a field, SubjectOf reads it from another object
// of the same event. All fields are empty if the event was not read yet.
func SubjectOf(ctx context.Context, db schema.Querier, receiptID string) (s Subject, err error) {
	list, err := schema.List[Subject](ctx, db, "read the subjects of receipt "+receiptID, subjectsSQL, receiptID)
	for _, one := range list {
		s.Object, s.Account = cmp.Or(s.Object, one.Object), cmp.Or(s.Account, one.Account)
		s.Customer, s.Number = cmp.Or(s.Customer, one.Customer), cmp.Or(s.Number, one.Number)
		if s.Amount == nil && one.Amount != nil {
			s.Amount, s.Currency = one.Amount, one.Currency
		}
	}
	return s, err
}

const hasAccountSQL = `select exists (select from event_subjects where account = $1 and account <> '')`

// HasAccount reports whether an event concerns the account. A flow of the configuration can use accounts that billing
// does not contain.
func HasAccount(ctx context.Context, db schema.Querier, account string) (bool, error) {
	return schema.One[bool](ctx, db, "look for events of account "+account, hasAccountSQL, account)
}

// Attempt is one attempt of a receipt to execute an effect.
type Attempt struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	// Outcome is "done", "failed", "uncertain", "skipped", or "already_done" if the effect was settled before.
	Outcome   string    `json:"outcome"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Error     string    `json:"error,omitempty"`
	// By is the ID of the event that had claimed the effect before, or "".
	By string `json:"by,omitempty"`
}

const attemptsSQL = `
select a.key, coalesce(e.kind, split_part(a.key, ':', 1)) as kind, a.outcome, a.started_at, a.ended_at,
       case when a.outcome = 'already_done' then '' else a.error end as error,
       case when e.receipt_id <> $1::uuid then coalesce(e.event_id, '') else '' end as by
  from attempts a left join effects e using (key)
 where a.receipt_id = $1::uuid order by a.started_at, a.ended_at, a.key`

// AttemptsOf returns the attempts of a receipt, oldest first.
func AttemptsOf(ctx context.Context, db schema.Querier, receiptID string) ([]Attempt, error) {
	return schema.List[Attempt](ctx, db, "read the attempts of receipt "+receiptID, attemptsSQL, receiptID)
}
