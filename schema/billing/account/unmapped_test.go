package account_test

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The event of a subscription, of its invoice, or of a payment of either has the unmapped price of the order.
func TestUnmappedPrices_EveryEventOfTheOrder(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	const event = "00000000-0000-0000-0000-000000000001"
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status) values ('` + event + `', 's', 'stripe', 'live', 'evt_1', 'id', 'x', now(), '', 'processed')`,
		`insert into subscriptions (mode, id, account, status, state) values ('live', 'sub_1', 'acme', 'active', '{"Asks":["price_gold"]}'), ('test', 'sub_1', 'acme', 'active', '{"Asks":["price_test"]}')`,
		`insert into invoices (mode, id, account, subscription, status, amount, currency, period_start, occurred_at, state)
			values ('live', 'in_1', 'acme', 'sub_1', 'paid', 4900, 'usd', '2026-11-01', now(), '{}'), ('live', 'in_2', 'acme', 'sub_1', 'paid', 29900, 'usd', '2026-12-01', now(), '{}')`,
		`insert into objects (mode, kind, id, account, invoice, state) values ('live', 'payment', 'pi_1', 'acme', 'in_1', '{"Purchase":"in_1"}'), ('live', 'payment', 'pi_2', 'ada', '', '{"Purchase":"cs_1"}'),
			('live', 'checkout', 'cs_1', 'ada', '', '{"Amount":1500,"Currency":"eur","Asks":["price_week"]}')`,
		`insert into accounts (mode, id, provider, target_state) values ('live', 'acme', 'stripe', 'active')`,
		`insert into tasks (mode, kind, object, account, state, title, effect_key) values ('live', 'unknown_price', 'acme:price_gold', 'acme', 'open', 'map', ''), ('live', 'unknown_price', 'ada:price_week', 'ada', 'done', 'map', '')`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for object, want := range map[string]account.UnmappedPrice{
		"sub_1": {Price: "price_gold", Object: "sub_1", Account: "acme", Currency: "usd", Active: true},
		"in_1":  {Price: "price_gold", Object: "sub_1", Account: "acme", Currency: "usd", Active: true},
		"pi_1":  {Price: "price_gold", Object: "sub_1", Account: "acme", Currency: "usd", Active: true},
		"cs_1":  {Price: "price_week", Object: "cs_1", Account: "ada", Currency: "eur"},
		"pi_2":  {Price: "price_week", Object: "cs_1", Account: "ada", Currency: "eur"},
		"in_9":  {},
	} {
		if _, err := db.Exec(t.Context(), `with gone as (delete from event_subjects) insert into event_subjects (receipt_id, object, main) values ($1, $2, true)`, event, object); err != nil {
			t.Fatal(err)
		}
		got, err := account.UnmappedPrices(t.Context(), db, "live", event)
		if err != nil || len(got) > 1 || len(got) == 0 && want.Price != "" {
			t.Fatalf("%s: %+v, %v", object, got, err)
		}
		if want.Price == "" {
			continue
		}
		amount, since := got[0].Amount, got[0].Since
		if got[0].Amount, got[0].Since = nil, nil; !slices.Equal(got, []account.UnmappedPrice{want}) || (since != nil) != (want.Account == "acme") ||
			amount == nil || *amount != map[string]int64{"usd": 29900, "eur": 1500}[want.Currency] {
			t.Errorf("%s: %+v, %v, %v; want %+v", object, got, amount, since, want)
		}
	}
}
