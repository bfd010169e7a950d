// Package cash compares the sums of finance entries with Stripe's balance. It only reports differences.
package cash

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/money"
)

// Difference is a currency in which an account's entries and Stripe's balance have different sums. Amounts are in
// minor units, before fees.
type Difference struct {
	Account  string `json:"account"`
	Currency string `json:"currency"`
	// Booked is the sum of the entries, Moved the sum of the balance transactions.
	Booked int64 `json:"booked"`
	Moved  int64 `json:"moved"`
	// Objects lists the objects with two different sums.
	Objects []Object `json:"objects"`
}

// Object is an invoice, checkout session, payment, refund or balance transaction of a dispute.
type Object struct {
	Object string `json:"object"`
	Booked int64  `json:"booked"`
	Moved  int64  `json:"moved"`
}

// String describes the difference in one line.
func (d Difference) String() string {
	var ids []string
	for _, o := range d.Objects {
		ids = append(ids, o.Object)
	}
	return fmt.Sprintf("the entries sum up to %s, and Stripe's balance to %s: compare %s",
		money.Format(d.Booked, d.Currency), money.Format(d.Moved, d.Currency), strings.Join(ids, ", "))
}

// Account is the account to compare.
type Account struct {
	account.Name
	// Settle is how long booking may take; younger movements of money are not compared.
	Settle time.Duration
	// LeftOut holds the reasons why something is not compared.
	LeftOut map[string]string

	customers []account.Customer
	moved     []stripe.Cash
	unknown   bool
}

// Add adds the movements of a customer's money in Stripe's balance. If the movements are incomplete, it also adds the
// reason.
func (a *Account) Add(customer account.Customer, held stripe.Holding) {
	a.customers, a.moved = append(a.customers, customer), append(a.moved, held.Cash...)
	for list, why := range held.LeftOut {
		a.LeftOut[list+" of "+customer.ID] = why
	}
	if !held.CashKnown {
		a.unknown = true
		a.LeftOut["sums of "+customer.ID] = "Stripe did not return all payments with their balance transactions"
	}
}

// Compare returns the currencies in which the sums differ. It returns no currency if some money is unknown. It omits
// money from before effects began, money of other products, skipped entries, and money that moved a moment ago.
func Compare(ctx context.Context, db *pgxpool.Pool, of Account, now time.Time) ([]Difference, error) {
	c := comparing{of: of, store: billing.New(db), sums: map[key]*Object{}}
	if of.unknown {
		return []Difference{}, nil
	}
	if err := c.add(ctx, now.Add(-of.Settle)); err != nil {
		return nil, err
	}
	if err := c.forgetSkipped(ctx); err != nil {
		return nil, err
	}
	return c.differences(), nil
}

type key struct{ object, currency string }

type comparing struct {
	of    Account
	store *billing.Store
	sums  map[key]*Object
}

func (c *comparing) sum(object, currency string) *Object {
	k := key{object, currency}
	if c.sums[k] == nil {
		c.sums[k] = &Object{Object: object}
	}
	return c.sums[k]
}

// add adds the entries, and the movements up to a time.
func (c *comparing) add(ctx context.Context, until time.Time) error {
	from, err := c.store.EffectsFrom(ctx, c.of.Mode)
	if err != nil {
		return err
	}
	var customers []string
	for _, of := range c.of.customers {
		customers = append(customers, of.ID)
	}
	booked, err := c.store.CashOf(ctx, c.of.Mode, customers)
	if err != nil {
		return err
	}
	for _, b := range booked {
		c.sum(b.Object, b.Currency).Booked += b.Cash
	}
	var payments []string
	for _, m := range c.of.moved {
		payments = append(payments, m.Payment)
	}
	purchases, err := c.store.Purchases(ctx, c.of.Mode, payments)
	if err != nil {
		return err
	}
	bought := map[string]billing.Purchase{}
	for _, p := range purchases {
		bought[p.Payment] = p
	}
	var wait []string
	for _, m := range c.of.moved {
		p, object := bought[m.Payment], m.Object
		if object == m.Payment {
			object = cmp.Or(p.Object, object)
		}
		if p.NotOurs || m.At.Before(from) {
			continue
		}
		if m.Pending || m.At.After(until) {
			wait = append(wait, object)
		}
		c.sum(object, m.Currency).Moved += m.Amount
	}
	maps.DeleteFunc(c.sums, func(k key, _ *Object) bool { return slices.Contains(wait, k.object) })
	return nil
}

// forgetSkipped removes objects with a skipped entry.
func (c *comparing) forgetSkipped(ctx context.Context) error {
	objects := map[string]string{} // by the key of the entry
	for _, of := range c.of.customers {
		scope := fact.Subject{Provider: "stripe", Mode: c.of.Mode, ProviderAccount: of.Account}.Scope()
		for k, o := range c.sums {
			for _, kind := range []string{"finance-export", "refund-entry", "dispute-entry"} {
				if o.Booked != o.Moved {
					objects[kind+":"+scope+":"+k.object] = k.object
				}
			}
		}
	}
	skipped, err := c.store.SkippedEntries(ctx, slices.Collect(maps.Keys(objects)))
	for _, entry := range skipped {
		maps.DeleteFunc(c.sums, func(k key, _ *Object) bool { return k.object == objects[entry] })
	}
	return err
}

func (c *comparing) differences() []Difference {
	byCurrency := map[string]*Difference{}
	for k, o := range c.sums {
		d := byCurrency[k.currency]
		if d == nil {
			d = &Difference{Account: c.of.ID, Currency: k.currency}
			byCurrency[k.currency] = d
		}
		d.Booked, d.Moved = d.Booked+o.Booked, d.Moved+o.Moved
		if o.Booked != o.Moved {
			d.Objects = append(d.Objects, *o)
		}
	}
	list := []Difference{}
	for _, currency := range slices.Sorted(maps.Keys(byCurrency)) {
		if d := byCurrency[currency]; d.Booked != d.Moved {
			d.Objects = unpaired(d.Objects)
			list = append(list, *d)
		}
	}
	return list
}

// unpaired omits an entry and a payment with the same amount if no event has reported that they belong together.
func unpaired(objects []Object) (left []Object) {
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Object, b.Object) })
	for _, o := range objects {
		other := slices.IndexFunc(left, func(l Object) bool {
			return l.Booked == o.Moved && l.Moved == o.Booked && l.Booked*l.Moved == 0
		})
		if other < 0 {
			left = append(left, o)
		} else {
			left = slices.Delete(left, other, other+1)
		}
	}
	return left
}
