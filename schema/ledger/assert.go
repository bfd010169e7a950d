package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Assertion is a person's statement that an effect has happened, although the ledger does not show it as done.
type Assertion struct {
	// Result is stored as the result of the effect. Note contains the person and the reason.
	Result json.RawMessage
	Note   string
	// Compensates and Also have the same meaning as in [Finish].
	Compensates string
	Also        []Statement
}

// assertSQL records an effect as done unless it is done already or has a valid claim. An effect that was never claimed
// gets a row without attempts.
const assertSQL = `
with asserted as (
    insert into effects as e (key, kind, state, receipt_id, event_id, run_id, lease_until, attempts, result, error, done_at)
    values ($1, $2, 'done', $3, $4, $5, now(), 0, $6, $7, now())
        on conflict (key) do update set state = 'done', committing = false, request = null, token = e.token + 1, result = excluded.result,
           error = excluded.error, error_class = '', done_at = now(), receipt_id = excluded.receipt_id, event_id = excluded.event_id,
           run_id = excluded.run_id
     where e.state in ('failed', 'uncertain') or (e.state = 'claimed' and e.lease_until < now())
    returning key, generation, receipt_id, run_id, token
)
insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, error)
select key, generation, receipt_id, run_id, token, 'done', now(), $7 from asserted`

// Assert records a person's statement that an effect has happened. The effect is then done, and can be compensated like
// any other. The statements in Also run in the same transaction. Assert returns false and changes nothing if the effect
// is settled or has a valid claim. The error is [ErrForeign] if the effect belongs to another receipt.
func (s *Store) Assert(ctx context.Context, c Claim, a Assertion) (held bool, err error) {
	keys := []string{c.Key}
	if a.Compensates != "" {
		keys = append(keys, a.Compensates)
	}
	slices.Sort(keys) // rows are locked in this order
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := checkOwn(ctx, tx, c); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockSQL, keys); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, assertSQL, c.Key, c.Kind, c.ReceiptID, c.EventID, c.RunID,
			cleanJSON(a.Result), clean(a.Note))
		if held = tag.RowsAffected() > 0; err != nil || !held {
			return err
		}
		if a.Compensates != "" {
			if _, err := tx.Exec(ctx, compensateSQL, []string{a.Compensates}); err != nil {
				return err
			}
		}
		for _, also := range a.Also {
			if _, err := tx.Exec(ctx, also.SQL, cleanArgs(also.Args)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("record that effect %s has happened: %w", c.Key, err)
	}
	return held, nil
}
