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

// Outlook says what the activities would do, and does nothing: it sends nothing and asks nobody outside, and what it has to
// write to know what that comes to is rolled back.
//
// Its receivers are those of a worker. What does effects in them is not used and may be nil.
type Outlook struct {
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

// outlookPatience bounds how long an outlook waits for a lock that a run holds. While it looks, it holds the locks of one
// event's facts itself.
const outlookPatience = 3 * time.Second

// Open begins a look at one run. The caller ends it with [Look.Close].
func (o *Outlook) Open(ctx context.Context) (*Look, error) {
	tx, err := o.DB.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin a preview: %w", err)
	}
	l := &Look{of: o, tx: tx, state: billing.Reading(tx)}
	if _, err := tx.Exec(ctx, fmt.Sprintf("set local lock_timeout = %d", outlookPatience.Milliseconds())); err != nil {
		l.Close()
		return nil, fmt.Errorf("begin a preview: %w", err)
	}
	return l, nil
}

// Look is one look ahead. It is for one goroutine.
type Look struct {
	of    *Outlook
	tx    pgx.Tx
	state *billing.Store
	// held are the sinks that are out or paused, nil until somebody asks.
	held map[string]string
}

// Close ends the look and rolls back what it has written.
func (l *Look) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.tx.Rollback(ctx) // where this fails, Postgres rolls back when the connection ends
}

// LoadFacts is [Billing.LoadFacts], which changes nothing.
func (l *Look) LoadFacts(ctx context.Context, in LoadFactsInput) (LoadFactsResult, error) {
	return l.of.Billing.LoadFacts(ctx, in)
}

// LoadRelay is [Consumers.LoadRelay], which changes nothing.
func (l *Look) LoadRelay(ctx context.Context, in LoadRelayInput) (LoadRelayResult, error) {
	return l.of.Consumers.LoadRelay(ctx, in)
}

// Standings returns how effects stand in the ledger. A key that was never claimed is not in it.
func (l *Look) Standings(ctx context.Context, keys []string) (map[string]effect.Standing, error) {
	found, err := ledger.Peek(ctx, l.tx, keys)
	if err != nil {
		return nil, err
	}
	stands := make(map[string]effect.Standing, len(found))
	for key, g := range found {
		stands[key] = effect.Standing(g)
	}
	return stands, nil
}

// Foresee returns what an effect comes to when it is done now, with what it leaves in our database, as long as the outside
// system takes what it is sent. input is what its activity takes. The answer of a provider that is asked is not foreseen:
// such an effect is done, without a value.
func (l *Look) Foresee(ctx context.Context, input any) (effect.Result, error) {
	value, err := l.foresee(ctx, input)
	return effect.Foreseen(value, err)
}

func (l *Look) foresee(ctx context.Context, input any) (any, error) {
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

// Held names the sink of an effect and says how it is out or paused, "" where it is neither. input is what its activity
// takes.
func (l *Look) Held(ctx context.Context, input any) (string, error) {
	gate := l.gate(input)
	if gate == nil {
		return "", nil
	}
	if l.held == nil {
		var err error
		if l.held, err = effect.Held(ctx, l.of.Breakers, l.of.Pauses); err != nil {
			return "", err
		}
	}
	words, held := l.held[gate.Sink()]
	if !held {
		return "", nil
	}
	return gate.Sink() + " " + words, nil
}

// gate is what an effect goes through to its sink, nil for one of our own database and for one that has no sink.
func (l *Look) gate(input any) *effect.Gate {
	switch in := input.(type) {
	case EffectInput[Workspace]:
		return l.of.Workspaces.Sinks[in.For.Mode].Policy.Gate
	case EffectInput[WorkspaceRef]:
		return l.of.Workspaces.Sinks[in.For.Mode].Policy.Gate
	case EffectInput[Entry]:
		return l.of.Finance.Sinks[in.For.Mode].Policy.Gate
	case EffectInput[Letter]:
		return l.of.Mail.Sinks[in.For.Mode].Policy.Gate
	case EffectInput[Delivery]:
		return l.of.Consumers.ByName[in.For.Consumer].Policy.Gate
	case EffectInput[Wanted]:
		return l.of.Objects.Policy.Gate
	}
	return nil
}

// change is what applying came to. An error of it is one of our database.
func (l *Look) change(c billing.Change, err error) (any, error) {
	return c, effect.Infrastructure(err)
}

func (l *Look) workspace(ctx context.Context, w Workspace) error {
	if err := configured(l.of.Workspaces.Sinks, w.Mode); err != nil {
		return err
	}
	return (&Workspaces{Targets: l.state}).current(ctx, w)
}

func (l *Look) letter(ctx context.Context, letter Letter) error {
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
