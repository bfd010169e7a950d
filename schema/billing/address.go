package billing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/ledger"
)

// Address is how a customer is written to, as one object of the provider's tells it. Beside the bodies of events, its
// row is the only place that holds such data: the clean-up of bodies leaves it, and a person who is forgotten is
// forgotten there.
type Address struct {
	// Subject says whose it is and since when it is true. The customer of a guest is the checkout session.
	Subject
	// Rank orders the facts of one second.
	Rank Rank
	// Email is a bare address, "" for none. The other words are "" where they are not known.
	Email, Name string
	// Locale is a language tag, Zone the name of a time zone.
	Locale, Zone string
	// Whole is set where the object is the customer itself: a field left out is empty. Other objects know only Email
	// and Name.
	Whole bool
	// Invoice and Page name a page of the provider's where the customer can see and pay an invoice, "" for none.
	Invoice, Page string
	// Forgotten is when a person had the customer forgotten, zero for never. No later object is kept then.
	Forgotten time.Time
}

// said is the address's place in the order of facts.
func (a Address) said() string {
	return fmt.Sprintf("%s %d %s", a.OccurredAt.UTC().Format(time.RFC3339), a.Rank, a.EventID)
}

// HashEmail is what a customer is found by. It is the plain SHA-256 of the address in lower case: the address stands
// beside it, so that a key would hide nothing. nil is for none.
func HashEmail(email string) []byte {
	if email = strings.ToLower(strings.TrimSpace(email)); email == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(email))
	return sum[:]
}

// KeepAddress keeps an address in tx, where the stored one is older. It may be called again, and in any order.
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

// AddressKept are the statements of [KeepAddress].
func AddressKept(a Address) (list []ledger.Statement) {
	if a.Customer != "" && (a.Whole || a.Email != "") {
		locale := ""
		if a.Whole {
			locale = a.said()
		}
		list = append(list, ledger.Statement{SQL: keepAddressSQL, Args: []any{a.Customer, a.Mode, a.Provider,
			a.ProviderAccount, a.Email, HashEmail(a.Email), a.Name, a.said(), a.Locale, a.Zone, locale}})
	}
	if a.Page != "" {
		list = append(list, ledger.Statement{SQL: keepPageSQL,
			Args: []any{a.Mode, a.Invoice, a.Page, a.Customer, a.Provider, a.ProviderAccount}})
	}
	return list
}

// Address returns how the subject's customer is written to, and the page of an invoice, "" for none. A customer
// without an address has the zero one.
func (s *Store) Address(ctx context.Context, of Subject, invoice string) (Address, error) {
	return one(ctx, s.db, "the address of "+of.Customer, func(row pgx.CollectableRow) (Address, error) {
		a := Address{Subject: of, Invoice: invoice}
		var forgotten *time.Time
		err := row.Scan(&a.Email, &a.Name, &a.Locale, &a.Zone, &forgotten, &a.Page)
		a.Forgotten = orZero(forgotten)
		return a, err
	}, addressSQL, of.Customer, of.Mode, of.Provider, of.ProviderAccount, invoice)
}

// keepAddressSQL orders e-mail and name apart from locale and zone, which only the customer itself tells.
const keepAddressSQL = `
insert into addresses as a (customer, mode, provider, provider_account, email, email_hash, name, said, locale, zone, locale_said)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    on conflict (customer, mode, provider, provider_account) do update set
       email = case when excluded.said > a.said then excluded.email else a.email end,
       email_hash = case when excluded.said > a.said then excluded.email_hash else a.email_hash end,
       name = case when excluded.said > a.said then excluded.name else a.name end,
       said = greatest(excluded.said, a.said),
       locale = case when excluded.locale_said > a.locale_said then excluded.locale else a.locale end,
       zone = case when excluded.locale_said > a.locale_said then excluded.zone else a.zone end,
       locale_said = greatest(excluded.locale_said, a.locale_said),
       updated_at = now()
 where a.forgotten_at is null and (excluded.said > a.said or excluded.locale_said > a.locale_said)`

// keepPageSQL changes no row whose page is the same.
const keepPageSQL = `
update invoices set page = $3 where mode = $1 and id = $2 and page <> $3 and not exists (
    select from addresses where customer = $4 and mode = $1 and provider = $5 and provider_account = $6 and forgotten_at is not null)`

const addressSQL = `
select coalesce(a.email, ''), coalesce(a.name, ''), coalesce(a.locale, ''), coalesce(a.zone, ''), a.forgotten_at,
       coalesce((select page from invoices where mode = $2 and id = $5), '')
  from (select) one
  left join addresses a on customer = $1 and mode = $2 and provider = $3 and provider_account = $4`
