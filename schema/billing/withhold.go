package billing

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/withheld"
)

// withhold records a task that would be opened. An import opens no task.
func (a *applying) withhold(t fold.Task) error {
	if a.facts[0].Origin == fact.FromImport {
		return nil
	}
	detail, err := json.Marshal(withheldTask{t, a.key})
	a.withheld = append(a.withheld, withheld.Record{
		Key: "task:" + t.Kind + ":" + a.subject.Mode + ":" + t.Object, Kind: withheld.Task, Account: t.Account,
		Detail: detail,
	})
	return err
}

// withholdNews records published events in their order.
func (a *applying) withholdNews(told []outbox.News) error {
	for i, n := range told {
		detail, err := json.Marshal(withheldNews{n, a.key})
		if err != nil {
			return err
		}
		a.withheld = append(a.withheld, withheld.Record{
			Key: fmt.Sprintf("%s#%03d", a.key, i), Kind: withheld.Event, Account: n.Account, Detail: detail,
		})
	}
	return nil
}

// hasEffects reports whether a scheduled action has effects: it became due after the start of effects, or a person
// asked for it. An action without a time is due at once, because a person assigned money to an account or corrected an
// entry.
func (a *applyingDue) hasEffects(d fold.Due) bool {
	switch d.Why {
	case fold.DueHold, fold.DueRefold, fold.DueChanged, fold.DueEnded, fold.DueTaken:
		return true
	}
	return d.At.IsZero() || !d.At.Before(a.policy.EffectsFrom)
}

// withholdDue records the scheduled actions of an account that have no effects.
func (a *applyingDue) withholdDue(b *pgx.Batch, account string, taken []fold.Due) error {
	for _, d := range taken {
		if a.hasEffects(d) {
			continue
		}
		d.Invoice, d.Subscription, d.Money = nil, nil, fold.State{}
		detail, err := json.Marshal(withheldDue{d, account})
		if err != nil {
			return err
		}
		withheld.Write(b, a.subject.Mode, d.Cause.ReceiptID, []withheld.Record{{
			Key:  fmt.Sprintf("due:%s:%s:%s:%d", a.subject.Mode, d.Object, d.Why, d.At.UnixMicro()),
			Kind: dueKind + string(d.Why), Account: account, Detail: detail,
		}})
	}
	return nil
}

// dueKind is the prefix of the kind of a withheld scheduled action.
const dueKind = "due-"

// withheldNews and withheldTask hold the key of the effect that would have written them.
type (
	withheldDue struct {
		fold.Due
		Account string
	}
	withheldNews struct {
		outbox.News
		EffectKey string
	}
	withheldTask struct {
		fold.Task
		EffectKey string
	}
)

// Release writes the withheld records of the event of a receipt. Published events go to the outbox. Tasks are opened
// unless a later event has settled them. Scheduled actions are due now. A run of the event executes the effects.
func Release(ctx context.Context, tx pgx.Tx, mode, receiptID string) error {
	records, err := withheld.Release(ctx, tx, receiptID)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	news := map[string][]outbox.News{}
	var keys []string
	for _, r := range records {
		switch {
		case strings.HasPrefix(r.Kind, dueKind):
			var d withheldDue
			if err := json.Unmarshal(r.Detail, &d); err != nil {
				return fmt.Errorf("read %s: %w", r.Key, err)
			}
			d.At = time.Now().UTC()
			await(b, mode, d.Object, d.Account, d.Due)
			await(b, mode, d.Account, d.Account, fold.Due{At: d.At, Why: fold.DueRefold, Object: d.Account,
				Cause: d.Cause})
		case r.Kind == withheld.Event:
			var n withheldNews
			if err := json.Unmarshal(r.Detail, &n); err != nil {
				return fmt.Errorf("read %s: %w", r.Key, err)
			}
			if len(news[n.EffectKey]) == 0 {
				keys = append(keys, n.EffectKey)
			}
			news[n.EffectKey] = append(news[n.EffectKey], n.News)
		case r.Kind == withheld.Task:
			var t withheldTask
			if err := json.Unmarshal(r.Detail, &t); err != nil {
				return fmt.Errorf("read %s: %w", r.Key, err)
			}
			b.Queue(releaseTaskSQL, mode, t.Kind, t.Object, t.Account, t.Title, t.EffectKey, orNull(t.DueBy),
				t.Amount, t.Currency)
		}
	}
	for _, key := range keys {
		outbox.Write(b, mode, receiptID, key, news[key])
	}
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
}

const releaseTaskSQL = wasTask + `
insert into tasks as t (mode, kind, object, account, state, title, effect_key, due_by, amount, currency)
values ($1, $2, $3, $4, 'open', $5, $6, $7, $8, $9)
    on conflict (mode, kind, object) do nothing` + taskWritten

// Order is a subscription or a one-off purchase. Its grant can be withheld.
type Order struct {
	Mode string    `json:"mode"`
	Kind fold.Kind `json:"kind"`
	ID   string    `json:"id"`
	// Account is the account of the order, and Plan its plan.
	Account string `json:"account"`
	Plan    string `json:"plan,omitempty"`
	// Amount is the money that is not paid back, in minor units of Currency.
	Amount   int64  `json:"amount"`
	Currency string `json:"currency,omitempty"`
	// Withheld is set while the grant is withheld.
	Withheld bool `json:"withheld"`
	// UpdatedAt is the last change of the order.
	UpdatedAt time.Time `json:"updated_at"`
}

// Orders returns the orders with an ID. An empty mode means both modes.
func Orders(ctx context.Context, db schema.Querier, mode, id string) ([]Order, error) {
	return schema.Rows(ctx, db, "read order "+id, pgx.RowToStructByPos[Order], ordersSQL, id, mode)
}

// Regrant returns the fact of a person who grants a withheld order again. The fact follows the last known fact of the
// order and belongs to its receipt.
func (o Order) Regrant(ctx context.Context, db schema.Querier, by fact.Decision, eventID string,
	at time.Time) (fact.Fact, error) {
	rows, _ := db.Query(ctx, lastFactSQL, []string{o.ID}, o.Mode) // CollectExactlyOneRow returns its error
	f, err := pgx.CollectExactlyOneRow(rows, ScanFact)
	if err != nil {
		return f, fmt.Errorf("read the facts of %s: %w", o.ID, err)
	}
	switch o.Kind {
	case fold.KindInvoice:
		by.Invoice = o.ID
	case fold.KindCheckout:
		by.Checkout = o.ID
	}
	f.Kind, f.Rank, f.Origin, f.Reader, f.Reading = fact.Reopened, fact.RankChange, fact.FromOperator, 0, ""
	f.EventType, f.EventID, f.OccurredAt = "", eventID, at
	f.Data = fact.Data{Decision: &by}
	return f, nil
}

// followRegrant schedules the actions after a person has granted an order again: the workspace of the account follows,
// and the customer of a changed subscription receives the email about the change.
func followRegrant(a *applying, b *pgx.Batch) {
	f := a.facts[0]
	if f.Kind != fact.Reopened || a.how != normal {
		return
	}
	account, cause := a.change.After.Access.Account, fact.CauseOf(f)
	if a.change.Before.Access.Target.Version != a.change.After.Access.Target.Version {
		await(b, a.subject.Mode, account, account,
			fold.Due{At: a.at, Why: fold.DueRefold, Object: account, Cause: cause})
	}
	sendLetters(a, b, []fold.Why{fold.DueChanged})
}

const ordersSQL = `
select mode, 'subscription', id, account, coalesce(state->'RefusedSale'->>'Plan', plan), coalesce((state->'Owed'->>'Amount')::bigint, 0),
       coalesce(state->'Owed'->>'Currency', ''), state ? 'Refused', updated_at
  from subscriptions where id = $1 and ($2 = '' or mode = $2)
union all
select mode, 'invoice', id, account, coalesce(state->>'Plan', ''), coalesce((state->'Owed'->>'Amount')::bigint, 0),
       coalesce(state->'Owed'->>'Currency', ''), state ? 'Withheld', updated_at
  from invoices where id = $1 and subscription = '' and ($2 = '' or mode = $2)
union all
select mode, 'checkout', id, account, coalesce(state->>'Plan', ''), coalesce((state->'Owed'->>'Amount')::bigint, 0),
       coalesce(state->'Owed'->>'Currency', ''), state ? 'Withheld', updated_at
  from objects where id = $1 and kind = 'checkout' and state->>'Mode' = 'payment' and ($2 = '' or mode = $2)
 order by 1`
