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

// Address is the email address of a customer with the data for emails, from one object of the provider. Apart from
// payloads, its row is the only place with such data. Retention of payloads does not delete the row; `pawl forget`
// does.
type Address struct {
	// Subject has the customer and the time. The customer of a guest is the checkout session.
	fact.Subject
	// Rank orders the facts within one second.
	Rank fact.Rank
	// Email is the address without a name. Unknown fields are empty.
	Email, Name string
	// Locale is a language tag, Zone the name of a time zone.
	Locale, Zone string
	// Whole is set if the object is the customer itself: a missing field is then empty. Other objects contain only
	// Email and Name.
	Whole bool
	// Invoice and Page are the ID and the URL of the invoice's page at the provider, or empty.
	Invoice, Page string
	// Forgotten is when a person let pawl forget the customer, or zero. No later object is stored then.
	Forgotten time.Time
	// Deleted is when the provider deleted the customer, or zero. No email is sent then.
	Deleted time.Time
}

// said returns the position of the address in the order of facts.
func (a Address) said() string {
	return fmt.Sprintf("%s %d %s", a.OccurredAt.UTC().Format(time.RFC3339), a.Rank, a.EventID)
}

// HashEmail returns the SHA-256 of the address in lower case. Customers are found by it. It has no key, because the
// address is stored in the same row. It returns nil for an empty address.
func HashEmail(email string) []byte {
	if email = strings.ToLower(strings.TrimSpace(email)); email == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(email))
	return sum[:]
}

// KeepAddress stores an address in tx if the stored address is older. It can be called repeatedly and in any order.
func KeepAddress(ctx context.Context, tx ledger.Tx, a Address) error {
	b := &pgx.Batch{}
	for _, keep := range AddressKept(a) {
		b.Queue(keep.SQL, keep.Args...)
	}
	if b.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("keep the address of %s: %w", a.Customer, err)
	}
	return nil
}

// AddressKept lists the statements of [KeepAddress].
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

// Address returns the address of the subject's customer and the URL of an invoice's page, or "". It returns the zero
// Address if none is stored.
func (s *Store) Address(ctx context.Context, of fact.Subject, invoice string) (Address, error) {
	return one(ctx, s.db, "the address of "+of.Customer, func(row pgx.CollectableRow) (Address, error) {
		a := Address{Subject: of, Invoice: invoice}
		var forgotten, deleted *time.Time
		err := row.Scan(&a.Email, &a.Name, &a.Locale, &a.Zone, &forgotten, &deleted, &a.Page)
		a.Forgotten, a.Deleted = orZero(forgotten), orZero(deleted)
		return a, err
	}, addressSQL, of.Customer, of.Mode, of.Provider, of.ProviderAccount, invoice)
}

// keepAddressSQL orders email and name separately from locale and zone, which only the customer itself contains.
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

// keepPageSQL changes no row with the same page.
const keepPageSQL = `
update invoices set page = $3 where mode = $1 and id = $2 and page <> $3 and not exists (
    select from addresses where customer = $4 and mode = $1 and provider = $5 and provider_account = $6 and forgotten_at is not null)`

const addressSQL = `
select coalesce(a.email, ''), coalesce(a.name, ''), coalesce(a.locale, ''), coalesce(a.zone, ''), a.forgotten_at, a.deleted_at,
       coalesce((select page from invoices where mode = $2 and id = $5), '')
  from (select) one
  left join addresses a on customer = $1 and mode = $2 and provider = $3 and provider_account = $4`
