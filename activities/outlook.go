package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Outlooks opens previews of activities. A preview sends nothing to outside systems. It writes to pawl's database to
// compute the results, and rolls the writes back.
//
// The fields are the receivers of a worker. A preview does not use the effect runners of these receivers, which may be
// nil.
type Outlooks struct {
	DB           *pgxpool.Pool
	Billing      *Billing
	Destinations *Destinations
	Workspaces   *Workspaces
	Finance      *Finance
	Mail         *Mail
	Objects      *Objects
}

// outlookPatience is the maximum wait of a preview for a lock that a run holds. A preview itself holds the locks of one
// event's facts until it is closed.
const outlookPatience = 3 * time.Second

// Open begins the preview of one run. The caller must call [Outlook.Close].
func (o *Outlooks) Open(ctx context.Context) (*Outlook, error) {
	tx, err := o.DB.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin a preview: %w", err)
	}
	l := &Outlook{of: o, tx: tx, state: billing.Reading(tx)}
	if _, err := tx.Exec(ctx, fmt.Sprintf("set local lock_timeout = %d", outlookPatience.Milliseconds())); err != nil {
		l.Close()
		return nil, fmt.Errorf("begin a preview: %w", err)
	}
	return l, nil
}

// Outlook is the preview of one run. It must be used by one goroutine only.
type Outlook struct {
	of    *Outlooks
	tx    pgx.Tx
	state *billing.Store
	// held contains the sinks that are down or paused. The first forecast reads it from the database.
	held map[string]effect.Holding
}

// Close ends the preview and rolls its writes back.
func (l *Outlook) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.tx.Rollback(ctx) // if this fails, Postgres rolls back when the connection ends
}

// LoadFacts calls [Billing.LoadFacts], which changes nothing.
func (l *Outlook) LoadFacts(ctx context.Context, in LoadFactsInput) (LoadFactsResult, error) {
	return l.of.Billing.LoadFacts(ctx, in)
}

// LoadRelay is [Destinations.LoadRelay] without the wait for another worker. It changes nothing.
func (l *Outlook) LoadRelay(ctx context.Context, in LoadRelayInput) (LoadRelayResult, error) {
	_, result, err := l.of.Destinations.loadRelay(ctx, in)
	return result, err
}

// Correct calls [billing.Correct].
func (l *Outlook) Correct(ctx context.Context, mode, object string, at time.Time) ([]fold.Correction, error) {
	return billing.Correct(ctx, l.tx, mode, object, at)
}

// Standings returns the ledger state of effects by key. It omits keys that were never claimed.
func (l *Outlook) Standings(ctx context.Context, keys []string) (map[string]effect.Standing, error) {
	return ledger.Peek(ctx, l.tx, keys)
}

// Forecast is the result that an effect would have now if the outside system accepted its request.
type Forecast struct {
	effect.Result
	// WaitsFor is the reason why the effect would wait, or "". The sink is down or paused, another entry must be booked
	// first, or the e-mail is delayed because its state may still change.
	WaitsFor string
	// Asks is set for an entry if its settlement is fetched from the provider first.
	Asks bool
}

// ForecastFacts is the forecast of [Billing.ApplyFacts].
func (l *Outlook) ForecastFacts(ctx context.Context, in EffectInput[Facts]) (Forecast, error) {
	return l.forecast(ctx, in.Effect, effect.Policy{}, func() (any, error) {
		change, err := l.apply(ctx, in.Effect, in.For.Facts, in.For.Withhold)
		if err == nil {
			err = effect.Infrastructure(keepAddress(ctx, l.tx, in.Effect, in.For.Facts))
		}
		return change, err
	})
}

// ForecastWithholding is the forecast of [Billing.WithholdGrant].
func (l *Outlook) ForecastWithholding(ctx context.Context, in EffectInput[Withholding]) (Forecast, error) {
	return l.forecast(ctx, in.Effect, effect.Policy{}, func() (any, error) {
		return l.apply(ctx, in.Effect, in.For.facts(in.Effect.Compensates), false)
	})
}

// ForecastDue is the forecast of [Billing.ApplyDue].
func (l *Outlook) ForecastDue(ctx context.Context, in EffectInput[AccountDue]) (Forecast, error) {
	return l.forecast(ctx, in.Effect, effect.Policy{}, func() (any, error) {
		change, err := billing.ApplyDue(ctx, l.tx, in.For.Subject, in.For.Account, in.For.At, l.of.Billing.Policy,
			in.Effect.Key)
		return change, effect.Infrastructure(err)
	})
}

// ForecastWorkspace is the forecast of [Workspaces.ProvisionWorkspace].
func (l *Outlook) ForecastWorkspace(ctx context.Context, in EffectInput[Workspace]) (Forecast, error) {
	sink, configured := l.of.Workspaces.Sinks[in.For.Mode]
	return l.forecast(ctx, in.Effect, sink.Policy, func() (any, error) {
		if !configured {
			return nil, ErrNotConfigured
		}
		return nil, (&Workspaces{Targets: l.state}).current(ctx, in.For)
	})
}

// ForecastAlignment is the forecast of [Workspaces.AlignWorkspace].
func (l *Outlook) ForecastAlignment(ctx context.Context, in EffectInput[WorkspaceRef]) (Forecast, error) {
	return forecastAt(ctx, l, in.Effect, l.of.Workspaces.Sinks[in.For.Mode].Policy, l.of.Workspaces.Sinks, in.For.Mode)
}

// ForecastEntry is the forecast of [Finance.PostEntry].
func (l *Outlook) ForecastEntry(ctx context.Context, in EffectInput[Entry]) (Forecast, error) {
	f, err := forecastAt(ctx, l, in.Effect, l.of.Finance.Sinks[in.For.Mode].Policy, l.of.Finance.Sinks, in.For.Mode)
	if err == nil && f.State == effect.Done && in.For.settles() {
		api, _, failed := l.of.Objects.api(ctx, in.Effect.ReceiptID)
		f.Asks, err = api != nil, failed
	}
	if err != nil || len(in.Effect.After) == 0 {
		return f, err
	}
	first, err := l.state.FirstToBook(ctx, in.Effect.ReceiptID, in.Effect.After)
	if first != "" {
		f.WaitsFor = waitsFor + first
	}
	return f, err
}

// ForecastLetter is the forecast of [Mail.SendLetter].
func (l *Outlook) ForecastLetter(ctx context.Context, in EffectInput[Letter]) (Forecast, error) {
	sink, configured := l.of.Mail.Sinks[in.For.Mode]
	mail := *l.of.Mail
	mail.Facts = l.state
	f, err := l.forecast(ctx, in.Effect, sink.Policy, func() (any, error) {
		if !configured {
			return nil, ErrNotConfigured
		}
		letter := in.For
		_, err := mail.wanted(ctx, in.Effect, &letter)
		return nil, err
	})
	if err != nil || f.State != effect.Done || f.WaitsFor != "" {
		return f, err
	}
	rest, err := mail.unsettled(ctx, in)
	if rest > 0 {
		f.WaitsFor = settling
	}
	return f, err
}

// WrittenLetter is an e-mail as it would be sent now.
type WrittenLetter struct {
	Template string `json:"letter"`
	// To is the customer's address, and Page is the linked page. Either is "" if unknown.
	To   string `json:"to"`
	Page string `json:"-"`
	// Subject and Text are "" if the e-mail is switched off, because it then has no template.
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// WriteLetter renders an e-mail with the stored data of the customer, even if it would not be sent. A forgotten
// customer has no address.
func (l *Outlook) WriteLetter(ctx context.Context, in EffectInput[Letter]) (w WrittenLetter, err error) {
	w.Template = in.For.Template
	of := fact.Subject{Provider: in.Effect.Provider, ProviderAccount: in.Effect.Account, Mode: in.For.Mode,
		Customer: in.For.Customer}
	to, err := l.state.Address(ctx, of, in.For.Object)
	if err != nil {
		return w, err
	}
	w.To, w.Page = to.Email, to.Page
	mail, letter := *l.of.Mail, in.For
	mail.Facts = l.state
	if _, err := mail.untrue(ctx, &letter); err != nil {
		return w, err
	}
	if !l.of.Mail.Letters.Off(w.Template) {
		w.Subject, w.Text, err = l.of.Mail.write(letter, to)
	}
	return w, err
}

// ForecastTask is the forecast of the activities of [Tasks]. They always succeed.
func (l *Outlook) ForecastTask(ctx context.Context, in EffectInput[Task]) (Forecast, error) {
	return l.forecast(ctx, in.Effect, effect.Policy{}, func() (any, error) { return nil, nil })
}

// ForecastRelay is the forecast of [Destinations.RelayEvent].
func (l *Outlook) ForecastRelay(ctx context.Context, in EffectInput[Delivery]) (Forecast, error) {
	return l.forecast(ctx, in.Effect, l.of.Destinations.ByName[in.For.Destination].Policy, func() (any, error) {
		_, _, err := l.of.Destinations.held(ctx, in)
		return nil, err
	})
}

// ForecastStep is the forecast of a step of a flow. It does not build the request, because the outputs of earlier steps
// are unknown.
func (l *Outlook) ForecastStep(ctx context.Context, in EffectInput[flow.Call]) (Forecast, error) {
	policy, why := l.of.Destinations.Flows.ForecastStep(in.For, in.Effect.Mode)
	return l.forecast(ctx, in.Effect, policy, func() (any, error) { return nil, why })
}

// ForecastFetch is the forecast of [Objects.FetchObject]. The provider's response is unknown, so the forecast is a
// result with state Done and without a value.
func (l *Outlook) ForecastFetch(ctx context.Context, in EffectInput[Wanted]) (Forecast, error) {
	return l.forecast(ctx, in.Effect, l.of.Objects.Policy, func() (any, error) { return nil, nil })
}

// forecastAt returns the forecast of an effect that succeeds if its mode has a sink.
func forecastAt[S any](ctx context.Context, l *Outlook, c effect.Call, p effect.Policy, sinks map[string]S,
	mode string) (Forecast, error) {
	return l.forecast(ctx, c, p, func() (any, error) {
		if _, configured := sinks[mode]; !configured {
			return nil, ErrNotConfigured
		}
		return nil, nil
	})
}

// forecast returns the forecast of an effect. The effect is uncertain if the sink has forgotten its key, and it waits
// if the sink is down or paused. The preview rolls back the writes of do.
func (l *Outlook) forecast(ctx context.Context, c effect.Call, p effect.Policy, do func() (any, error)) (f Forecast,
	err error) {
	states, err := l.Standings(ctx, []string{c.Key})
	if err != nil {
		return f, err
	}
	if f.WaitsFor, err = l.waitsFor(ctx, c, p, states[c.Key]); err != nil {
		return f, err
	}
	value, err := any(nil), p.Forgotten(states[c.Key])
	if err == nil {
		value, err = do()
	}
	f.Result, err = effect.Foreseen(value, err)
	return f, err
}

func (l *Outlook) waitsFor(ctx context.Context, c effect.Call, p effect.Policy, state effect.Standing) (words string,
	err error) {
	if p.Gate == nil {
		return "", nil
	}
	if l.held == nil {
		if l.held, err = effect.Held(ctx, l.of.DB); err != nil {
			return "", err
		}
	}
	holding, held := l.held[p.Gate.Sink()]
	if !held {
		return "", nil
	}
	words = p.Gate.Sink() + " " + holding.Words
	if beyond := p.Beyond(holding, c, state, time.Now()); beyond != "" {
		words += "; " + beyond
	}
	return words, nil
}

func (l *Outlook) apply(ctx context.Context, c effect.Call, facts []fact.Fact, silent bool) (any, error) {
	policy := l.of.Billing.Policy
	policy.Silent = silent
	change, err := billing.Apply(ctx, l.tx, facts, policy, c.Key, time.Time{})
	return change, effect.Infrastructure(err)
}
