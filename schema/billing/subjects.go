package billing

import (
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// WriteSubjects adds a statement to b that writes the rows of the receipts in event_subjects: one for each object in
// their facts. It deletes the rows of objects without facts. It skips receipts that do not exist, such as the receipts
// of imported facts. It may be called twice.
func WriteSubjects(b *pgx.Batch, receipts []string) {
	b.Queue(writeSubjectsSQL, "", receipts, []string{}, []string{}, []string{})
}

// writeSubjects writes the subjects of the receipts of the applied facts. It also writes the subjects of earlier events
// about objects that have moved to another account or have another invoice number now. A repair writes the subjects of
// all events about its objects, because any of the rows may differ.
func writeSubjects(a *applying, b *pgx.Batch) {
	if a.how == inScratch {
		return
	}
	var receipts, moved, owners, repaired []string
	for _, list := range [][]fact.Fact{a.facts, a.told} {
		for _, f := range list {
			receipts = append(receipts, f.ReceiptID)
			if a.how == repairing {
				repaired = append(repaired, f.Object)
			}
		}
	}
	for _, o := range a.now.List() {
		if !hasMoved(o, a.before[fold.KeyOf(o)]) {
			continue
		}
		moved = append(moved, o.Reference().ID)
		if k := o.Kind(); k == fold.KindSubscription || k == fold.KindInvoice {
			owners = append(owners, o.Reference().ID)
		}
	}
	b.Queue(writeSubjectsSQL, a.subject.Mode, fact.Unique(receipts), texts(moved), texts(owners), texts(repaired))
}

// hasMoved reports whether an object is new, or has another account, invoice or invoice number than before.
// was may be nil.
func hasMoved(o, was fold.Object) bool {
	if was == nil || was.Reference().Account != o.Reference().Account ||
		was.Reference().Invoice != o.Reference().Invoice {
		return true
	}
	before, ok := was.(*fold.Invoice)
	return ok && before.Number != o.(*fold.Invoice).Number
}

// subjectsOfReceipt reads the subjects of receipt r. The account is the present account of the object. The first object
// with an amount is the main subject; the order is the order of the facts in the first reading of the event. Facts that
// were fetched, or that a person decided, make no main subject, because the event does not state them. It compares
// objects in the collation of the projections' keys, which differs from the collation of the facts.
const subjectsOfReceipt = `
select object collate "default" as object, shown and row_number() over (order by not shown, not valued, first) = 1 as main, account, customer, number, amount, currency
  from (select distinct on (f.object) f.object, f.customer, f.origin in ('event', 'reread') as shown, valued, first,
               coalesce(nullif(o.account, ''), f.data -> 'Link' ->> 'Account', f.customer) as account,
               coalesce(o.number, f.data -> 'Invoice' ->> 'Number', '') as number, amount, currency
          from current_facts f
         cross join lateral (
               select min(e.id) as first from facts e
                where e.receipt_id = f.receipt_id and e.object = f.object and e.kind = f.kind) earliest
         cross join lateral (
               select coalesce(f.data -> 'Payment', f.data -> 'Checkout', f.data -> 'Refund', f.data -> 'Dispute', f.data -> 'Credit') as part) other
         cross join lateral (
               select f.data ? 'Invoice' or other.part is not null as valued,
                      coalesce(nullif((f.data -> 'Invoice' ->> 'Paid')::bigint, 0), (f.data -> 'Invoice' ->> 'Due')::bigint,
                               (other.part ->> 'Amount')::bigint) as amount,
                      coalesce(f.data -> 'Invoice' ->> 'Currency', other.part ->> 'Currency') as currency) amounts
         cross join lateral (
               select max(account) as account, max(number) as number
                 from (select account, state ->> 'Number' as number from invoices where mode = r.mode and id = f.object collate "default"
                       union all
                       select account, null from subscriptions where mode = r.mode and id = f.object collate "default"
                       union all
                       select account, (select i.state ->> 'Number' from invoices i where i.mode = p.mode and i.id = p.invoice and p.invoice <> '')
                         from objects p where mode = r.mode and id = f.object collate "default") present) o
         where f.receipt_id = r.id
         order by f.object, not (f.origin in ('event', 'reread')), not valued, first) each`

// writeSubjectsSQL writes the subjects of receipts $2. It also writes the receipts with subjects $3, the receipts with
// objects of the subscriptions or invoices $4 in mode $1, and all receipts with facts about objects $5. It changes no
// equal row, and locks rows in the order of their key.
const writeSubjectsSQL = `
with moved as (
    select unnest($3::text[]) as id
    union select owned.id from unnest($4::text[]) owner (id) cross join lateral (
          select id from invoices where mode = $1 and subscription = owner.id and subscription <> ''
          union all select id from objects where mode = $1 and subscription = owner.id and subscription <> ''
          union all select id from objects where mode = $1 and invoice = owner.id and invoice <> '' offset 0) owned
), touched as materialized (
    select unnest($2::uuid[]) as receipt_id
    union select s.receipt_id from moved cross join lateral (
          select receipt_id from event_subjects where object = moved.id offset 0) s
    union select f.receipt_id from unnest($5::text[]) repaired (id) cross join lateral (
          select receipt_id from facts where object = repaired.id collate "C" offset 0) f
), wanted as materialized (
    select r.id as receipt_id, s.*
      from touched
     cross join lateral (select id, mode from receipts where id = touched.receipt_id offset 0) r
     cross join lateral (` + subjectsOfReceipt + ` offset 0) s
), gone as (
    delete from event_subjects s using touched
     where s.receipt_id = touched.receipt_id
       and not exists (select from wanted where wanted.receipt_id = s.receipt_id and wanted.object = s.object)
)
insert into event_subjects (receipt_id, object, main, account, customer, number, amount, currency)
select receipt_id, object, main, account, customer, number, amount, currency from wanted
 where not exists (select from event_subjects s where s.receipt_id = wanted.receipt_id and s.object = wanted.object
          and (s.main, s.account, s.customer, s.number, s.amount, s.currency) is not distinct from
              (wanted.main, wanted.account, wanted.customer, wanted.number, wanted.amount, wanted.currency))
 order by receipt_id, object
    on conflict (receipt_id, object) do update set main = excluded.main, account = excluded.account, customer = excluded.customer,
       number = excluded.number, amount = excluded.amount, currency = excluded.currency`
