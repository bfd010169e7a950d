package activities

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// These are the reasons why the settlement of an entry is unknown although its source has an API key.
const (
	// SettlementLate: the provider did not report the settlement within [Finance.Settle].
	SettlementLate = "not_reported"
	// SettlementDenied: the source's API key has no permission to read settlements.
	SettlementDenied = "not_permitted"
	// SettlementNone: the entry has no known payment, and the provider lists no payment.
	SettlementNone = "no_payment"
	// SettlementMixed: the sum of the known payments differs from the entry, or they have several currencies.
	SettlementMixed = "not_certain"
)

const (
	// askingFor is the timeout for the requests of one check. It leaves time for the attempt to post the entry in the
	// same activity.
	askingFor = 3 * time.Second
	// mostAsked is the maximum wait between two checks. Most balance transactions appear within seconds.
	mostAsked = time.Minute
	// deniedFor is how long pawl does not use a key for settlements after Stripe refused it.
	deniedFor = 10 * time.Minute
)

// waitsToSettle is the reason on the receipt while an entry waits for its settlement.
const waitsToSettle = "Stripe has not reported the settlement of the money yet"

// settles reports whether pawl can fetch the settlement of the entry. It returns false for two kinds of entries: a
// reversal has the settlement of the reversed entry, and the events of a dispute contain the settlement. It also
// returns false for a part of a charge's refunds with an ID that pawl made.
func (e Entry) settles() bool {
	switch e.Kind {
	case PaymentEntry:
		return e.Settlement == nil && (e.Method == ByCharge || e.Method == Unknown)
	case RefundEntry:
		return e.Settlement == nil && !strings.Contains(e.Object, ":")
	}
	return false
}

// settle fetches the settlement of an entry if its source has an API key. It runs before the claim, because every later
// attempt sends the bytes of the first attempt. If the ledger already contains these bytes, settle fetches nothing.
// While the provider has no settlement, the state of the result is Waits, for at most [Finance.Settle] in total. The
// zero result means that the entry can be booked.
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
	asking, cancel := context.WithTimeout(ctx, askingFor)
	defer cancel()
	var requested time.Duration
	in.For.Settlement, in.For.SettlementUnknown, requested, err = f.ask(asking, api, source, in.For)
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
		Wait: min(max(requested, waited/4, leastWait), mostAsked, f.Settle-waited)}, nil
}

// ask requests the settlement once. If it may be available later, unknown is [SettlementLate], and wait is the delay
// that Stripe requested. If the payment of an invoice's entry is unknown, or the sum of the known payments differs, ask
// also lists the payments of the invoice, because their events may be late.
func (f *Finance) ask(ctx context.Context, api *stripe.Client, source string, e Entry) (s *fold.Settlement,
	unknown string, wait time.Duration, err error) {
	if at, ok := f.Objects.denied.Load(source); ok && f.Objects.Now().Sub(at.(time.Time)) < deniedFor {
		return nil, SettlementDenied, 0, nil
	}
	read, payments := api.Refunded, []string{cmp.Or(e.Payment, e.Object)}
	if e.Kind == PaymentEntry {
		read = api.Charged
	}
	if e.Kind == PaymentEntry && e.Payment == "" {
		if payments, err = f.Facts.PaymentsFor(ctx, e.Mode, e.Object); err != nil {
			return nil, "", 0, effect.Infrastructure(err)
		}
	}
	var all []stripe.Moved
	for listed := false; ; listed = true {
		for _, id := range payments {
			found, err := read(ctx, id, e.ProviderAccount)
			switch {
			case err == nil:
				all = append(all, found...)
			case !errors.Is(err, stripe.ErrNotFound):
				unknown, wait = f.missing(ctx, source, err)
				return nil, unknown, wait, nil
			}
		}
		s, unknown = settlementOf(e, all)
		missing := unknown == SettlementMixed || unknown == SettlementNone
		if listed || !missing || e.Kind != PaymentEntry || e.Payment != "" || e.Invoice == "" {
			return s, unknown, 0, nil
		}
		of, err := api.PaymentIDs(ctx, e.Invoice, e.ProviderAccount)
		if errors.Is(err, stripe.ErrForbidden) || errors.Is(err, stripe.ErrNotFound) { // the key may still read charges
			return nil, unknown, 0, nil
		}
		if err != nil {
			unknown, wait = f.missing(ctx, source, err)
			return nil, unknown, wait, nil
		}
		known := payments
		payments = slices.DeleteFunc(of, func(id string) bool { return slices.Contains(known, id) })
	}
}

// missing returns why a request failed, and the delay that Stripe requested.
func (f *Finance) missing(ctx context.Context, source string, err error) (unknown string, wait time.Duration) {
	if failure, _ := errors.AsType[*effect.Failure](err); failure == nil || failure.Health != effect.Denied {
		_, wait = effect.Classify(err)
		return SettlementLate, wait
	}
	f.Objects.denied.Store(source, f.Objects.Now())
	f.Effects.Log.WarnContext(ctx, "the api_key may not read settlements: entries are booked without them",
		"source", source, "error", err)
	return SettlementDenied, 0
}

// settlementOf returns the settlement of an entry: the total of its payments, or the settlement of the only payment
// with the entry's amount. Otherwise it returns the reason why the settlement is unknown.
func settlementOf(e Entry, all []stripe.Moved) (*fold.Settlement, string) {
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
	total := fold.Settlement{}
	for _, m := range all {
		switch s := m.Settlement; {
		case s == nil:
			return nil, SettlementLate
		case total.Currency != "" && s.Currency != total.Currency:
			return nil, SettlementMixed
		default:
			total = *fold.Settled(total.Amount+s.Amount, total.Fee+s.Fee, s.Currency)
		}
	}
	return &total, ""
}
