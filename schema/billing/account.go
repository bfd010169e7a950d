package billing

import (
	"cmp"
	"time"
)

// Order is something that was bought once, outside of any subscription.
type Order struct {
	ID string
	Sale
	PaidAt time.Time
	// For is how long it grants from then on; 0 grants nothing.
	For time.Duration

	// sold is set where it was paid for, and not taken back; paidBack while all of that was refunded, held while a
	// hold is on it. cause is the fact that it was paid by; refundedBy and lostBy are as an [Invoice]'s.
	sold, paidBack, held      bool
	cause, refundedBy, lostBy Cause
}

// Taken says why it grants nothing after it was sold, as [Subscription.Taken] does.
func (o Order) Taken() string { return taken(o.held, o.lostBy, o.paidBack) }

// Granted reports whether it grants, or has granted until its time was over: it was paid for, its prices are mapped for
// some time, and it is not refunded in full, taken back or held.
func (o Order) Granted() bool { return o.sold && o.For > 0 && !o.held && !o.paidBack }

func (o Order) ends() time.Time { return o.PaidAt.Add(o.For) }

func (o Order) grants() []Grant {
	if !o.Granted() {
		return nil
	}
	return []Grant{{o.ID, o.Plan, o.Quantity, o.AddOns, o.ends(), o.ends(), o.cause.EventID}}
}

func (o Order) due() []Due {
	if !o.Granted() {
		return nil
	}
	return []Due{{At: o.ends(), Why: DueOneOff, Object: o.ID, Cause: o.cause}}
}

// lapsed returns when the order ended, as seen at a time. It ends when its time is over, when it is refunded in full,
// or when a dispute about it is lost.
func (o Order) lapsed(at time.Time) (used lapse) {
	if !o.sold || o.For == 0 || o.held && o.lostBy == (Cause{}) {
		return lapse{}
	}
	if !o.ends().After(at) {
		used = lapse{o.ends(), o.cause}
	}
	if o.paidBack {
		used = used.earlier(lapsedBy(o.refundedBy))
	}
	return used.earlier(lapsedBy(o.lostBy))
}

// AccountOf returns our account of an object that names the account itself, or "", and of a customer with these
// facts. A customer without any link is an account of its own.
func AccountOf(named, customer string, facts []Fact) string {
	return cmp.Or(named, linkOf(facts), customer)
}

// linkOf returns the account that a customer's facts link it to, or "". The last link that no checkout made decides,
// else the first that a checkout made.
func linkOf(facts []Fact) string {
	facts = InOrder(facts)
	return cmp.Or(linkedTo(facts), linkedByCheckout(facts))
}

// LinksOf returns the facts that a checkout session leaves beside its own, where it names an account: the session links
// its subscription, and the customer.
func LinksOf(session Fact) []Fact {
	c := session.Checkout
	if c == nil || c.Account == "" {
		return nil
	}
	var links []Fact
	for _, object := range []string{c.Subscription, session.Customer} {
		if object == "" {
			continue
		}
		link := session
		link.Kind, link.Object = Linked, object
		link.Data = Data{Link: &LinkFact{Account: c.Account, Checkout: true}}
		links = append(links, link)
	}
	return links
}

// The following take the facts of one object in their order.

func linkedTo(facts []Fact) (account string) {
	for _, f := range facts {
		if f.Kind == Linked && !f.Link.Checkout {
			account = f.Link.Account
		}
	}
	return account
}

func linkedByCheckout(facts []Fact) string {
	for _, f := range facts {
		if f.Kind == Linked && f.Link.Checkout {
			return f.Link.Account
		}
	}
	return ""
}

const accountColumns = `id, target_version, target_state, target_plan, target_quantity, target_features, held, over_at, clock_timestamp() as now, (xmax = 0) as made`

const accountSQL = `select ` + accountColumns + ` from accounts where mode = $1 and id = $2`

const lockedAccountSQL = accountSQL + ` for no key update`

// lockAccountSQL makes the account's row, or locks it. Its outbox then has the order in which its changes commit.
const lockAccountSQL = `
insert into accounts (mode, id, provider, customer) values ($1, $2, $3, $4)
    on conflict (mode, id) do update set provider = excluded.provider, folded_at = now()
returning ` + accountColumns

const grantsSQL = `select object, plan, quantity, add_ons, until, ends, because from grants where mode = $1 and account = $2`

const giveSQL = `
insert into grants (mode, object, account, plan, quantity, add_ons, until, ends, because) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (mode, object) do update set account = excluded.account, plan = excluded.plan, quantity = excluded.quantity,
       add_ons = excluded.add_ons, until = excluded.until, ends = excluded.ends, because = excluded.because`

const takeSQL = `delete from grants where mode = $1 and object = $2`

const writeTargetSQL = `
update accounts set target_version = $3, target_state = $4, target_plan = $5, target_quantity = $6, target_features = $7,
       known_features = array(select unnest(known_features) union select unnest($7::text[]) order by 1), updated_at = now()
 where mode = $1 and id = $2`

const lapsedSQL = `update accounts set over_at = $3 where mode = $1 and id = $2`

// holdsSQL reads the holds on an account, whoever's customers it has.
const holdsSQL = `
select ` + factColumns + ` from current_facts
 where object = $2 and mode = $1 and kind in ('held', 'released') and data->'Decision'->>'Account' = object`

const holdSQL = `update accounts set held = $3, updated_at = now() where mode = $1 and id = $2 and held <> $3`
