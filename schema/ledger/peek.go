package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Peek returns the records of the keys, as [Store.Read] does, and writes nothing: it may be called in any
// transaction. A claim that has run out shows as the next claim would meet it: [Uncertain] past its point of no
// return, else [Failed], and to be tried again.
func Peek(ctx context.Context, db Tx, keys []string) (map[string]Grant, error) {
	found := map[string]Grant{}
	err := eachHeld(ctx, db, keys, func(key string, g Grant, committing, lapsed bool) {
		switch {
		case g.State == Claimed && lapsed && committing:
			g = g.doubted()
		case g.State == Claimed && lapsed:
			g.State, g.Class, g.Error = Failed, Transient, lapsedUndone
		}
		found[key] = g
	})
	if err != nil {
		return nil, fmt.Errorf("read %d effects: %w", len(keys), err)
	}
	return found, nil
}

// DoneSince reports whether an effect was done after a time, or may have been. Its key is one of prefixes and a number.
func DoneSince(ctx context.Context, db Querier, prefixes []string, at time.Time) (done bool, err error) {
	rows, _ := db.Query(ctx, doneSinceSQL, prefixes, at) // CollectExactlyOneRow returns its error
	if done, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool]); err != nil {
		return false, fmt.Errorf("look for effects since %s: %w", at.UTC().Format(time.RFC3339), err)
	}
	return done, nil
}

// doneSinceSQL goes by the index: a colon comes next after the digits.
const doneSinceSQL = `
select exists (select from unnest($1::text[]) as p (prefix) cross join lateral (
    select from effects e where e.key > p.prefix and e.key < p.prefix || ':' and coalesce(e.done_at, e.claimed_at) > $2
       and (e.state in ('done', 'uncertain') or e.state = 'claimed' and e.committing) limit 1) as told)`

// Querier reads.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Claimable reports whether a claim of a round would be granted where g is what [Peek] has found: the condition of
// claimSQL, for who only asks.
func (g Grant) Claimable(round int) bool {
	switch g.State {
	case Failed:
		return g.Class == Transient || round > g.Round
	case Uncertain:
		return round > g.Round
	}
	return false
}

// KeepsKey reports whether a claim that is granted where g is what [Peek] has found stays in its generation, and
// under the key that the sink knows: what claimSQL calls not begun.
func (g Grant) KeepsKey() bool {
	var kept struct{ Unanswered bool }
	_ = json.Unmarshal(g.Result, &kept) // an effect without a result was answered
	return g.Class != Ambiguous && (g.Class != Permanent && g.Class != Fault || kept.Unanswered)
}

// doubted is a claim that lapsed after its point of no return.
func (g Grant) doubted() Grant {
	g.State, g.Class, g.Error = Uncertain, Ambiguous, lapsedInDoubt
	return g
}

// eachHeld reads the records of the keys.
func eachHeld(ctx context.Context, db Tx, keys []string, f func(key string, g Grant, committing, lapsed bool)) error {
	rows, err := db.Query(ctx, readSQL, keys)
	if err != nil {
		return err
	}
	var (
		key                string
		g                  Grant
		committing, lapsed bool
	)
	_, err = pgx.ForEachRow(rows, []any{&key, &g.State, &committing, &g.LeaseUntil, &lapsed, &g.Generation, &g.Attempt,
		&g.Round,
		&g.ReceiptID, &g.EventID, &g.Result, &g.Error, &g.Class, &g.Age, &g.Trying}, func() error {
		held := g
		held.Result = slices.Clone(g.Result)
		f(key, held, committing, lapsed)
		return nil
	})
	return err
}

// Doubt counts the effects of one kind and mode that are in doubt.
type Doubt struct {
	Kind, Mode string
	Effects    int
	// Since is when the first of them came into doubt.
	Since time.Time
}

// doubtfulSQL also counts the claims that ran out past their point of no return.
const doubtfulSQL = `
select e.kind, r.mode, count(*)::int as effects, min(e.lease_until) as since from effects e join receipts r on r.id = e.receipt_id
 where (e.state = 'uncertain' or e.state = 'claimed' and e.committing) and e.lease_until < now() - $1::interval
 group by e.kind, r.mode order by e.kind, r.mode`

const owedSQL = `
select count(*)::int, coalesce(extract(epoch from now() - min(claimed_at)), 0)::float8
  from effects where state in ('claimed', 'failed', 'uncertain') and kind = any($1)`

// Owed counts the effects of these kinds that have begun and are not done, and returns since how many seconds the first
// of them is.
func (s *Store) Owed(ctx context.Context, kinds []string) (count int, seconds float64, err error) {
	if err := s.pool.QueryRow(ctx, owedSQL, kinds).Scan(&count, &seconds); err != nil {
		return 0, 0, fmt.Errorf("count what is owed: %w", err)
	}
	return count, seconds, nil
}

// Doubtful counts the effects that have been in doubt for so long. It writes nothing.
func Doubtful(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, long time.Duration) ([]Doubt, error) {
	rows, _ := db.Query(ctx, doubtfulSQL, long) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Doubt])
	if err != nil {
		return nil, fmt.Errorf("count effects in doubt: %w", err)
	}
	return found, nil
}
