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

// withhold records a task that would have been opened if effects were not withheld. An import opens no tasks.
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

// hasEffects reports whether a scheduled action has effects. It has if it became due after the start of effects, or if
// a person requested it. An action without a due time was requested by a person: money was assigned to an account, or
// an entry was corrected.
func (a *applyingDue) hasEffects(d fold.Due) bool {
	switch d.Kind {
	case fold.DueHold, fold.DueRefold, fold.DueChanged:
		return true
	}
	return d.At.IsZero() || !d.At.Before(a.policy.EffectsFrom)
}

// withholdDue records those scheduled actions of an account that have no effects.
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
			Key:  fmt.Sprintf("due:%s:%s:%s:%d", a.subject.Mode, d.Object, d.Kind, d.At.UnixMicro()),
			Kind: dueKind + string(d.Kind), Account: account, Detail: detail,
		}})
	}
	return nil
}

const dueKind = "due-"

// withheldNews and withheldTask contain the key of the effect that would have published the event or opened the task.
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

// Release executes the withheld records of a receipt's event. It writes the published events to the outbox. It opens
// the tasks that later events have not made unnecessary. It makes the scheduled actions due now. It does not run the
// effects: a run of the event does.
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
			await(b, mode, d.Account, d.Account, fold.Due{At: d.At, Kind: fold.DueRefold, Object: d.Account,
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

// Order is a subscription or a one-off purchase with a grant that can be withheld.
type Order struct {
	Mode string    `json:"mode"`
	Kind fold.Kind `json:"kind"`
	ID   string    `json:"id"`
	// Account is the account of the order, and Plan the plan of the order.
	Account string `json:"account"`
	Plan    string `json:"plan,omitempty"`
	// Amount is the money that was not paid back yet, in minor units of Currency.
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

// Regrant returns the fact that a person grants a withheld order again. The fact is later than the last known fact of
// the order, and belongs to the same receipt.
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

// followRegrant schedules the actions after a person has granted an order again. The workspace is updated, and the
// customer of a changed subscription gets the e-mail about the change.
func followRegrant(a *applying, b *pgx.Batch) {
	f := a.facts[0]
	if f.Kind != fact.Reopened || a.how != normal {
		return
	}
	account, cause := a.change.After.Access.Account, fact.CauseOf(f)
	if a.change.Before.Access.Target.Version != a.change.After.Access.Target.Version {
		await(b, a.subject.Mode, account, account,
			fold.Due{At: a.at, Kind: fold.DueRefold, Object: account, Cause: cause})
	}
	for _, o := range a.touched() {
		s, is := o.(*fold.Subscription)
		if !is || s.Account == "" || s.Account != account {
			continue
		}
		was, known := a.before[fold.KeyOf(o)].(*fold.Subscription)
		if known && was.Granting() && s.Granting() && s.ChangedFrom(was) && s.Given().Plan != "" {
			await(b, a.subject.Mode, s.ID+" letters", account,
				fold.Due{At: a.at, Kind: fold.DueChanged, Object: s.ID, Cause: cause})
		}
	}
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
