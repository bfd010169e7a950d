package activities

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
)

// Why the settlement of an entry is unknown, though its source can ask.
const (
	// SettlementLate: the provider did not show it within [Finance.Settle].
	SettlementLate = "not_told"
	// SettlementDenied: the source's key may not read it.
	SettlementDenied = "not_permitted"
	// SettlementNone: no payment of it is known, or the provider shows none.
	SettlementNone = "no_payment"
	// SettlementMixed: the payments that are known come to another sum, or to several currencies.
	SettlementMixed = "not_certain"
)

const (
	// askingFor bounds the asking at one look. The entry's own try has to fit into the same activity.
	askingFor = 3 * time.Second
	// mostAsked bounds the wait between two looks: most balance transactions are there within seconds.
	mostAsked = time.Minute
	// deniedFor is for how long a key that was refused is not asked with.
	deniedFor = 10 * time.Minute
)

// waitsToSettle is why an entry waits.
const waitsToSettle = "Stripe does not show yet how the money has settled"

// settles reports whether the provider can tell how the entry's money moved on its balance. An entry that takes back
// another has the settlement of that, and the events of a dispute carry theirs. A part of a charge's refunds has a name
// of ours, which the provider does not know.
func (e Entry) settles() bool {
	switch e.Kind {
	case PaymentEntry:
		return e.Settlement == nil && (e.How == ByCharge || e.How == Unknown)
	case RefundEntry:
		return e.Settlement == nil && !strings.Contains(e.Object, ":")
	}
	return false
}

// settle asks how an entry's money has settled, where its source can ask. It asks before anything is claimed: the bytes
// of the first try are those of every later one, and one that has them does not ask. As long as the provider does not
// show it the result is a wait, which ends with [Finance.Settle]; the zero result goes on to book the entry.
func (f *Finance) settle(ctx context.Context, in *EffectInput[Entry]) (effect.Result, error) {
	if _, books := f.Sinks[in.For.Mode]; !books || f.Objects == nil || in.Effect.ByHand != nil || !in.For.settles() {
		return effect.Result{}, nil
	}
	api, source, err := f.Objects.api(ctx, in.Effect.ReceiptID)
	if api == nil || err != nil {
		return effect.Result{}, err
	}
	begun, err := f.Effects.Ledger.Read(ctx, []string{in.Effect.Key})
	if err != nil {
		return effect.Result{}, effect.Infrastructure(err)
	}
	if g, ok := begun[in.Effect.Key]; ok && (!g.Claimable(in.Effect.Round) || g.KeepsKey()) {
		return effect.Result{}, nil
	}
	asked, cancel := context.WithTimeout(ctx, askingFor)
	defer cancel()
	var told time.Duration
	in.For.Settlement, in.For.SettlementUnknown, told, err = f.ask(asked, api, source, in.For)
	if err != nil || in.For.SettlementUnknown != SettlementLate {
		return effect.Result{}, err
	}
	var waited time.Duration
	if since := in.Effect.WaitingSince; !since.IsZero() {
		waited = f.Objects.Now().Sub(since)
	}
	if waited >= f.Settle {
		return effect.Result{}, nil
	}
	return effect.Result{State: effect.Waits, Reason: waitsToSettle,
		Wait: min(max(told, waited/4, leastWait), mostAsked, f.Settle-waited)}, nil
}

// ask asks once. Where the answer may come later, unknown is [SettlementLate], and told the wait that was asked for.
func (f *Finance) ask(ctx context.Context, api *stripe.Client, source string, e Entry) (s *billing.Settlement,
	unknown string, told time.Duration, err error) {
	if at, ok := f.Objects.denied.Load(source); ok && f.Objects.Now().Sub(at.(time.Time)) < deniedFor {
		return nil, SettlementDenied, 0, nil
	}
	payments := []string{e.Object}
	if e.Kind == PaymentEntry {
		if payments, err = f.Facts.PaymentsFor(ctx, e.Mode, e.Object); err != nil {
			return nil, "", 0, effect.Infrastructure(err)
		}
	}
	var all []stripe.Moved
	for _, id := range payments {
		read := api.Charged
		if e.Kind == RefundEntry {
			read = api.Refunded
		}
		found, err := read(ctx, id, e.ProviderAccount)
		switch failure, _ := errors.AsType[*effect.Failure](err); {
		case err == nil:
			all = append(all, found...)
		case errors.Is(err, stripe.ErrNotFound):
		case failure != nil && failure.Health == effect.Denied:
			f.Objects.denied.Store(source, f.Objects.Now())
			f.Effects.Log.WarnContext(ctx, "entries are booked without their settlement, which the key may not read",
				"source", source, "error", err)
			return nil, SettlementDenied, 0, nil
		default:
			_, told = effect.Classify(err)
			return nil, SettlementLate, told, nil
		}
	}
	s, unknown = settlementOf(e, all)
	return s, unknown, 0, nil
}

// settlementOf returns the settlement of an entry by what its payments have moved: all of them together, or else the
// one of the entry's amount. If they come to another sum, it says why not.
func settlementOf(e Entry, all []stripe.Moved) (*billing.Settlement, string) {
	if len(all) == 0 {
		return nil, SettlementNone
	}
	var sum int64
	var same []stripe.Moved
	for _, m := range all {
		if m.Currency != e.Currency {
			return nil, SettlementMixed
		}
		if sum += m.Amount; m.Amount == e.Amount {
			same = append(same, m)
		}
	}
	if sum != e.Amount {
		if all = same; len(same) != 1 {
			return nil, SettlementMixed
		}
	}
	total := billing.Settlement{}
	for _, m := range all {
		switch s := m.Settlement; {
		case s == nil:
			return nil, SettlementLate
		case total.Currency != "" && s.Currency != total.Currency:
			return nil, SettlementMixed
		default:
			total = *billing.Settled(total.Amount+s.Amount, total.Fee+s.Fee, s.Currency)
		}
	}
	return &total, ""
}
