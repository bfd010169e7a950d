package billing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/schematest"
)

// sales is what happened to the payments of an account at a made-up provider, and the facts that its events told.
type sales struct {
	history
	payments []*charged
}

type charged struct {
	id, invoice string
	refunds     []*repaid
	// dispute and credit are the IDs of those about it, "" for none.
	dispute, credit string
	movements       []billing.Movement
}

type repaid struct {
	id, status string
	amount     int64
}

func newSales(seed uint64, steps int) *sales {
	s := &sales{history: history{random: rand.New(rand.NewPCG(seed, 7))}}
	for range steps {
		s.second += pick(s.random, 0, 0, 1, hour)
		if len(s.payments) == 0 || len(s.payments) < 3 && s.random.IntN(4) == 0 {
			s.sell()
			continue
		}
		s.happen(pick(s.random, s.payments...))
	}
	return s
}

// sell tells of a paid invoice, of its charge, and, where that does not name it, of what ties the two together.
func (s *sales) sell() {
	n := len(s.payments) + 1
	p := &charged{id: fmt.Sprint("ch_", n), invoice: fmt.Sprint("in_", n)}
	s.payments = append(s.payments, p)
	s.tell(paid(n, s.second, "pro", pick(s.random, of(p.invoice, "acme", ""), of(p.invoice, "umbrella", ""), oneOff(60*day))))
	told := charge(s.second, 0)
	if s.random.IntN(2) == 0 {
		told.Payment.Invoice = ""
		link := tie(s.second, p.invoice)
		link.Object = p.id
		s.tell(link)
	}
	s.tell(s.about(p, told))
}

func (s *sales) about(p *charged, f billing.Fact) billing.Fact {
	switch {
	case f.Payment != nil:
		f.Object, f.Payment.Charge = p.id, p.id
		if f.Payment.Invoice != "" {
			f.Payment.Invoice = p.invoice
		}
	case f.Refund != nil:
		f.Refund.Charge = p.id
	case f.Dispute != nil:
		f.Object, f.Dispute.Charge = p.dispute, p.id
	case f.Credit != nil:
		f.Object, f.Credit.Invoice = p.credit, p.invoice
	}
	return f
}

func (s *sales) happen(p *charged) {
	switch s.random.IntN(8) {
	case 0, 1, 2:
		r := &repaid{id: fmt.Sprintf("re_%s_%d", p.id, len(p.refunds)), status: "succeeded", amount: int64(100 + s.random.IntN(300))}
		p.refunds = append(p.refunds, r)
		s.tell(s.about(p, refunded(r.id, s.second, pick(s.random, "pending", "succeeded"), r.amount)))
		s.second++
		s.tell(s.about(p, refunded(r.id, s.second, "succeeded", r.amount)))
	case 3:
		if len(p.refunds) > 0 {
			r := pick(s.random, p.refunds...)
			r.status = "failed"
			s.second++
			s.tell(s.about(p, refunded(r.id, s.second, "failed", r.amount)))
		}
	case 4: // the charge says what is refunded in sum
		s.second++
		s.tell(s.about(p, charge(s.second, p.refunded())))
		s.second++
	case 5, 6:
		s.second++ // two changes of a dispute in one second have no order
		status := pick(s.random, "needs_response", "under_review", "won", "lost")
		if p.dispute == "" {
			p.dispute, status = "dp_"+p.id, "needs_response"
		}
		p.movements = append(p.movements, billing.Movement{ID: fmt.Sprintf("txn_%s_%d", p.id, len(p.movements)), Amount: -1, Currency: "usd"})
		s.tell(s.about(p, disputed(s.second, billing.RankChange, status, slices.Clone(p.movements)...)))
	default:
		status := "void"
		if p.credit == "" {
			p.credit, status = "cn_"+p.id, "issued"
		}
		s.second++
		s.tell(s.about(p, credited(s.second, status)))
	}
}

// refunded is what is paid back of a payment now.
func (p *charged) refunded() (sum int64) {
	for _, r := range p.refunds {
		if r.status == "succeeded" {
			sum += r.amount
		}
	}
	return sum
}

// Whatever happened to payments, and in whichever order and however often it is told: the rows, and what was told, are
// those of the order in which it happened, and what is refunded is what happened.
func TestApply_GeneratedSales_SameRowsAndNews(t *testing.T) {
	t.Parallel()
	p := policy
	p.EndOnFullRefund, p.HoldOnDispute, p.EndOnLostDispute = true, true, true
	for name, seed := range seeds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := schematest.New(t)
			for n := range uint64(15) {
				s := newSales(seed+n, 12)
				want, news := appliedMoney(t, pool, s.facts, p)
				for _, sold := range s.payments {
					said := fmt.Sprint("refunded ", sold.refunded())
					if !slices.ContainsFunc(want, func(line string) bool {
						return strings.HasPrefix(line, sold.id+": ") && strings.HasSuffix(line, said)
					}) {
						t.Errorf("seed %d: %s shall be %s\n got %q", seed+n, sold.id, said, want)
					}
				}
				for range 2 {
					delivered := s.deliver(s.random)
					if got, told := appliedMoney(t, pool, delivered, p); !slices.Equal(got, want) || told != news {
						t.Fatalf("seed %d\n got %q, %s\nwant %q, %s", seed+n, got, told, want, news)
					}
				}
			}
		})
	}
}
