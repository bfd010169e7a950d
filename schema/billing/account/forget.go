package account

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// forgetAddressesSQL empties the address rows of the customer, one per provider account. It keeps the empty rows,
// because they prevent later events from storing the address again.
const forgetAddressesSQL = `
insert into addresses as a (customer, mode, provider, provider_account, said, forgotten_at)
select distinct $1, $2, provider, provider_account, '', now() from (
    select provider, provider_account from facts where customer = $1 and customer <> '' and mode = $2
    union select provider, provider_account from facts where object = $1 and mode = $2
    union select provider, provider_account from addresses where customer = $1 and mode = $2) seen
    on conflict (customer, mode, provider, provider_account) do update set email = '', email_hash = null, name = '', locale = '',
       zone = '', said = '', locale_said = '', forgotten_at = now(), updated_at = now()`

const forgetPagesSQL = `update invoices set page = '' where customer = $1 and customer <> '' and mode = $2 and page <> ''`

const forgetBodiesSQL = `delete from receipt_bodies where receipt_id = any($1)`

// These statements erase responses of outside systems. A mail server, for example, may repeat an address in its
// response.
const (
	forgetRequestsSQL = `
update effects set request = null, error = regexp_replace(error, '\S+@\S+', '(erased)', 'g')
 where receipt_id = any($1) and (request is not null or error like '%@%')`

	forgetErrorsSQL = `
update effect_attempts set error = regexp_replace(error, '\S+@\S+', '(erased)', 'g')
 where receipt_id = any($1) and error like '%@%'`

	// The account of a flow can be an address.
	forgetFlowAccountsSQL = `update event_subjects set account = '' where receipt_id = any($1) and object = ''`
)

const forgetRejectionsSQL = `delete from rejections where id = any($1)`

// Forget erases the data of the customer in tx, which also records the decision. The caller must have checked that no
// event about the customer is in progress; see [Traces.AtRest].
func (t *Traces) Forget(ctx context.Context, tx pgx.Tx) error {
	rejections := make([]string, len(t.Rejections))
	for i, r := range t.Rejections {
		rejections[i] = r.ID
	}
	b := &pgx.Batch{}
	b.Queue(forgetAddressesSQL, t.Customer, t.Mode)
	b.Queue(forgetPagesSQL, t.Customer, t.Mode)
	for _, sql := range []string{forgetBodiesSQL, forgetRequestsSQL, forgetErrorsSQL, forgetFlowAccountsSQL} {
		b.Queue(sql, t.receipts)
	}
	b.Queue(forgetRejectionsSQL, rejections)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("forget customer %s: %w", t.Customer, err)
	}
	return nil
}
