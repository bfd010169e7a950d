package billing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Address is the e-mail address of a customer and other data for e-mails, read from one object of the provider. Apart
// from payloads, this table is the only place with such data. `pawl forget` deletes a row; the retention of payloads
// does not.
type Address struct {
	// Subject identifies the customer and the time. For a guest, the customer is the ID of the checkout session.
	fact.Subject
	// Rank orders the facts within one second.
	Rank fact.Rank
	// Email is the plain address, without a display name. Unknown fields are empty.
	Email, Name string
	// Locale is a language tag, Zone the name of a time zone.
	Locale, Zone string
	// Whole is set if the data comes from the customer object itself, so that a missing field means empty. Other
	// objects contain only Email and Name.
	Whole bool
	// Invoice is the ID of an invoice, and Page the URL of the provider's page for it. Both may be empty.
	Invoice, Page string
	// Forgotten is when the customer was forgotten with `pawl forget`, or zero. After that, no address is stored for
	// the customer.
	Forgotten time.Time
	// Deleted is when the provider deleted the customer, or zero. The customer gets no e-mails after that.
	Deleted time.Time
}

// said returns the sort key of an address. Data with a higher key replaces data with a lower key.
func (a Address) said() string {
	return fmt.Sprintf("%s %d %s", a.OccurredAt.UTC().Format(time.RFC3339), a.Rank, a.EventID)
}

// HashEmail returns the SHA-256 of the address in lower case. Searches use the hash to find a customer by address. The
// hash has no secret key, because the address itself is stored in the same row. HashEmail returns nil for an empty
// address.
func HashEmail(email string) []byte {
	if email = strings.ToLower(strings.TrimSpace(email)); email == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(email))
	return sum[:]
}

// KeepAddress stores an address in tx unless a newer one is stored. Repeated calls, in any order, give the same result.
func KeepAddress(ctx context.Context, tx ledger.Tx, a Address) error {
	b := &pgx.Batch{}
	for _, keep := range AddressKept(a) {
		b.Queue(keep.SQL, keep.Args...)
	}
	if b.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("store the address of %s: %w", a.Customer, err)
	}
	return nil
}

// AddressKept returns the statements that [KeepAddress] executes.
func AddressKept(a Address) (list []ledger.Statement) {
	if a.Customer != "" && (a.Whole || a.Email != "") {
		locale := ""
		if a.Whole {
			locale = a.said()
		}
		list = append(list, ledger.Statement{SQL: keepAddressSQL, Args: []any{a.Customer, a.Mode, a.Provider,
			a.ProviderAccount, a.Email, HashEmail(a.Email), a.Name, a.said(), a.Locale, a.Zone, locale,
			orNull(a.Deleted)}})
	}
	if a.Page != "" {
		list = append(list, ledger.Statement{SQL: keepPageSQL,
			Args: []any{a.Mode, a.Invoice, a.Page, a.Customer, a.Provider, a.ProviderAccount}})
	}
	return list
}

// Address returns the stored address of the subject's customer. Page is the page of the given invoice, or "". It
// returns the zero Address if none is stored.
func (s *Store) Address(ctx context.Context, of fact.Subject, invoice string) (Address, error) {
	return one(ctx, s.db, "the address of "+of.Customer, func(row pgx.CollectableRow) (Address, error) {
		a := Address{Subject: of, Invoice: invoice}
		var forgotten, deleted *time.Time
		err := row.Scan(&a.Email, &a.Name, &a.Locale, &a.Zone, &forgotten, &deleted, &a.Page)
		a.Forgotten, a.Deleted = orZero(forgotten), orZero(deleted)
		return a, err
	}, addressSQL, of.Customer, of.Mode, of.Provider, of.ProviderAccount, invoice)
}

// keepAddressSQL compares the age of e-mail and name separately from the age of locale and zone, because only the
// customer object contains locale and zone.
const keepAddressSQL = `
insert into addresses as a (customer, mode, provider, provider_account, email, email_hash, name, said, locale, zone, locale_said, deleted_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    on conflict (customer, mode, provider, provider_account) do update set
       email = case when excluded.said > a.said then excluded.email else a.email end,
       email_hash = case when excluded.said > a.said then excluded.email_hash else a.email_hash end,
       name = case when excluded.said > a.said then excluded.name else a.name end,
       said = greatest(excluded.said, a.said),
       locale = case when excluded.locale_said > a.locale_said then excluded.locale else a.locale end,
       zone = case when excluded.locale_said > a.locale_said then excluded.zone else a.zone end,
       locale_said = greatest(excluded.locale_said, a.locale_said),
       deleted_at = coalesce(a.deleted_at, excluded.deleted_at), updated_at = now()
 where a.forgotten_at is null and (excluded.said > a.said or excluded.locale_said > a.locale_said or a.deleted_at is null and excluded.deleted_at is not null)`

// keepPageSQL changes nothing if the stored page is the same.
const keepPageSQL = `
update invoices set page = $3 where mode = $1 and id = $2 and page <> $3 and not exists (
    select from addresses where customer = $4 and mode = $1 and provider = $5 and provider_account = $6 and forgotten_at is not null)`

const addressSQL = `
select coalesce(a.email, ''), coalesce(a.name, ''), coalesce(a.locale, ''), coalesce(a.zone, ''), a.forgotten_at, a.deleted_at,
       coalesce((select page from invoices where mode = $2 and id = $5), '')
  from (select) one
  left join addresses a on customer = $1 and mode = $2 and provider = $3 and provider_account = $4`
