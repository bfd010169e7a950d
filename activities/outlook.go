package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/pause"
)

// Outlooks begins previews: what the activities would do. It does nothing: it sends nothing and asks nobody outside, and what it has to
// write to know what that comes to is rolled back.
//
// Its receivers are those of a worker. What does effects in them is not used and may be nil.
type Outlooks struct {
	DB         *pgxpool.Pool
	Billing    *Billing
	Consumers  *Consumers
	Workspaces *Workspaces
	Finance    *Finance
	Mail       *Mail
	Objects    *Objects
	// Breakers and Pauses say which sinks are out or paused.
	Breakers *breaker.Store
	Pauses   *pause.Store
}

// outlookPatience bounds how long an outlook waits for a lock that a run holds. Until it is closed, it holds the locks of one
// event's facts itself.
const outlookPatience = 3 * time.Second

// Open begins the preview of one run. The caller ends it with [Outlook.Close].
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

// Outlook answers the preview of one run. It is for one goroutine.
type Outlook struct {
	of    *Outlooks
	tx    pgx.Tx
	state *billing.Store
	// held are the sinks that are out or paused, nil until somebody asks.
	held map[string]effect.Holding
}

// Close ends the preview and rolls back what it has written.
func (l *Outlook) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.tx.Rollback(ctx) // where this fails, Postgres rolls back when the connection ends
}

// LoadFacts is [Billing.LoadFacts], which changes nothing.
func (l *Outlook) LoadFacts(ctx context.Context, in LoadFactsInput) (LoadFactsResult, error) {
	return l.of.Billing.LoadFacts(ctx, in)
}

// LoadRelay is [Consumers.LoadRelay], which changes nothing.
func (l *Outlook) LoadRelay(ctx context.Context, in LoadRelayInput) (LoadRelayResult, error) {
	return l.of.Consumers.LoadRelay(ctx, in)
}

// Standings returns how effects stand in the ledger. A key that was never claimed is not in it.
func (l *Outlook) Standings(ctx context.Context, keys []string) (map[string]effect.Standing, error) {
	found, err := ledger.Peek(ctx, l.tx, keys)
	if err != nil {
		return nil, err
	}
	return standings(found), nil
}

// Foresee returns what an effect comes to when it is done now, with what it leaves in our database, as long as the outside
// system takes what it is sent. input is what its activity takes. The answer of a provider that is asked is not foreseen:
// such an effect is done, without a value. One whose key the sink has forgotten is in doubt.
func (l *Outlook) Foresee(ctx context.Context, input any) (effect.Result, error) {
	if call, policy := l.policy(input); policy.KeyLifetime > 0 {
		stands, err := l.Standings(ctx, []string{call.Key})
		if err != nil {
			return effect.Result{}, err
		}
		if err := policy.Forgotten(stands[call.Key]); err != nil {
			return effect.Foreseen(nil, err)
		}
	}
	value, err := l.foresee(ctx, input)
	return effect.Foreseen(value, err)
}

func (l *Outlook) foresee(ctx context.Context, input any) (any, error) {
	switch in := input.(type) {
	case EffectInput[Facts]:
		return l.change(billing.Apply(ctx, l.tx, in.For.Facts, l.of.Billing.Policy, in.Effect.Key, time.Time{}))
	case EffectInput[Withholding]:
		return l.change(billing.Apply(ctx, l.tx, in.For.facts(in.Effect.Compensates), l.of.Billing.Policy, in.Effect.Key, time.Time{}))
	case EffectInput[AccountDue]:
		return l.change(billing.ApplyDue(ctx, l.tx, in.For.Subject, in.For.Account, in.For.At, l.of.Billing.Policy, in.Effect.Key))
	case EffectInput[Workspace]:
		return nil, l.workspace(ctx, in.For)
	case EffectInput[WorkspaceRef]:
		return nil, configured(l.of.Workspaces.Sinks, in.For.Mode)
	case EffectInput[Entry]:
		return nil, configured(l.of.Finance.Sinks, in.For.Mode)
	case EffectInput[Letter]:
		return nil, l.letter(ctx, in.For)
	case EffectInput[Delivery]:
		_, err := l.of.Consumers.held(ctx, in)
		return nil, err
	}
	return nil, nil
}

// Held names the sink of an effect and says how it is out or paused, and what becomes of the effect where that lasts too
// long; "" where it is neither. input is what its activity takes.
func (l *Outlook) Held(ctx context.Context, input any) (string, error) {
	call, policy := l.policy(input)
	if policy.Gate == nil {
		return "", nil
	}
	if l.held == nil {
		var err error
		if l.held, err = effect.Held(ctx, l.of.Breakers, l.of.Pauses); err != nil {
			return "", err
		}
	}
	sink := policy.Gate.Sink()
	holding, held := l.held[sink]
	if !held {
		return "", nil
	}
	stands, err := l.Standings(ctx, []string{call.Key})
	if err != nil {
		return "", err
	}
	words := sink + " " + holding.Words
	if beyond := policy.Beyond(holding, call, stands[call.Key], time.Now()); beyond != "" {
		words += "; " + beyond
	}
	return words, nil
}

// policy says how an effect is tried at its sink. One of our own database, and one that has no sink, has no gate.
func (l *Outlook) policy(input any) (effect.Call, effect.Policy) {
	switch in := input.(type) {
	case EffectInput[Workspace]:
		return in.Effect, l.of.Workspaces.Sinks[in.For.Mode].Policy
	case EffectInput[WorkspaceRef]:
		return in.Effect, l.of.Workspaces.Sinks[in.For.Mode].Policy
	case EffectInput[Entry]:
		return in.Effect, l.of.Finance.Sinks[in.For.Mode].Policy
	case EffectInput[Letter]:
		return in.Effect, l.of.Mail.Sinks[in.For.Mode].Policy
	case EffectInput[Delivery]:
		return in.Effect, l.of.Consumers.ByName[in.For.Consumer].Policy
	case EffectInput[Wanted]:
		return in.Effect, l.of.Objects.Policy
	}
	return effect.Call{}, effect.Policy{}
}

// change is what applying came to. An error of it is one of our database.
func (l *Outlook) change(c billing.Change, err error) (any, error) {
	return c, effect.Infrastructure(err)
}

func (l *Outlook) workspace(ctx context.Context, w Workspace) error {
	if err := configured(l.of.Workspaces.Sinks, w.Mode); err != nil {
		return err
	}
	return (&Workspaces{Targets: l.state}).current(ctx, w)
}

func (l *Outlook) letter(ctx context.Context, letter Letter) error {
	if err := configured(l.of.Mail.Sinks, letter.Mode); err != nil {
		return err
	}
	mail := *l.of.Mail
	mail.Known, mail.Invoices = l.state, l.state
	_, err := mail.wanted(ctx, letter)
	return err
}

// configured returns that an effect is not wanted where a mode has no sink.
func configured[S any](sinks map[string]S, mode string) error {
	if _, ok := sinks[mode]; !ok {
		return errNotConfigured
	}
	return nil
}
