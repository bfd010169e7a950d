package billing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

// In every order of delivery, the captures of an authorised payment add up to the captured amount, for a payment
// without a session and for the payment of a session. A known capture never changes, because it may be booked. If a
// larger sum arrives first, it counts as one capture.
func TestApply_SeveralCaptures_EveryOrder_AddUp(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	capture := func(second int, amount int64) fact.Fact {
		return changed(captured(second, amount), func(f *fact.Fact) { f.Payment.NoInvoice, f.Payment.PaidAt = true, at(second) })
	}
	three := []fact.Fact{capture(20, 400), capture(40, 700), capture(60, 1000)}
	for kind, facts := range map[string][]fact.Fact{"payment": three, "checkout": append([]fact.Fact{sale(1, "complete", "unpaid")}, three...)} {
		ordersOfRows(events(facts, true), func(delivered []fact.Fact) {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				known := ""
				for n, f := range delivered {
					if _, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, fmt.Sprintf("apply:%d", n), at(1000)); err != nil {
						return err
					}
					now := strings.Join(texts(t, tx, `select coalesce((select string_agg(c ->> 'Sum', ' ') from jsonb_array_elements(state -> 'Captures') c), state ->> 'Amount')
						from objects where kind = '`+kind+`' and (state ->> 'PaymentStatus' = 'paid' or kind = 'payment')`), "")
					if !strings.HasPrefix(now, known) {
						t.Errorf("%s, after %s: the captures were %s, and are %s", kind, told(delivered[:n+1]), known, now)
					}
					known = now
				}
				if !strings.HasSuffix(known, "1000") {
					t.Errorf("%s, after %s: the captures are %s", kind, told(delivered), known)
				}
				if inOrder := delivered[0].Object == facts[0].Object && delivered[len(delivered)-1].OccurredAt.Equal(at(60)); inOrder && kind == "payment" &&
					delivered[0].OccurredAt.Equal(at(20)) && delivered[1].OccurredAt.Equal(at(40)) && known != "400 700 1000" {
					t.Errorf("%s, after %s: the captures are %s", kind, told(delivered), known)
				}
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				t.Fatal(err)
			}
		})
	}
}
