package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Peek returns the records of the keys like [Store.Read], but it writes nothing, so it may be called in any
// transaction. A lapsed claim (a claim after the end of its lease) is returned as the next claim would see it: as
// [Uncertain] after its point of no return, otherwise as [Failed] and claimable.
func Peek(ctx context.Context, db Tx, keys []string) (map[string]Grant, error) {
	found := map[string]Grant{}
	rows, err := records(ctx, db, keys)
	for _, r := range rows {
		g := r.Grant
		switch {
		case r.doubtful():
			g = g.doubted()
		case g.State == Claimed && r.Lapsed:
			g.State, g.Class, g.Error = Failed, Transient, lapsedUndone
		}
		found[r.Key] = g
	}
	return found, err
}

// recorded is a row of readSQL.
type recorded struct {
	Grant
	Key                string
	Committing, Lapsed bool
}

func records(ctx context.Context, db schema.Querier, keys []string) ([]recorded, error) {
	rows, _ := db.Query(ctx, readSQL, keys) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[recorded])
	if err != nil {
		return nil, fmt.Errorf("read %d effects: %w", len(keys), err)
	}
	return found, nil
}

// doubtful reports whether the lease of the claim ended after its point of no return.
func (r recorded) doubtful() bool { return r.State == Claimed && r.Lapsed && r.Committing }

// DoneSince reports whether an effect was done, or may have been done, after the given time. It selects the effects
// with a key that is one of prefixes followed by a number.
func DoneSince(ctx context.Context, db schema.Querier, prefixes []string, at time.Time) (done bool, err error) {
	return schema.One[bool](ctx, db, "look for effects since "+at.UTC().Format(time.RFC3339), doneSinceSQL, prefixes,
		at)
}

// doneSinceSQL searches up to the colon, which follows the digits in ASCII, so that it can use the index.
const doneSinceSQL = `
select exists (select from unnest($1::text[]) as p (prefix) cross join lateral (
    select from effects e where e.key > p.prefix and e.key < p.prefix || ':' and coalesce(e.done_at, e.claimed_at) > $2
       and (e.state in ('done', 'uncertain') or e.state = 'claimed' and e.committing) limit 1) as found)`

// Claimable reports whether a claim in the round would be granted, according to the record g of [Peek]. It is the same
// condition as in claimSQL, for callers that do not claim.
func (g Grant) Claimable(round int) bool {
	switch g.State {
	case Failed:
		return g.Class == Transient || round > g.Round
	case Uncertain:
		return round > g.Round
	}
	return false
}

// KeepsKey reports whether the next claim would stay in the same generation, according to the record g of [Peek]. The
// request then keeps the idempotency key that the sink already knows. This is the opposite of begun in claimSQL.
func (g Grant) KeepsKey() bool {
	var kept struct{ Unanswered bool }
	_ = json.Unmarshal(g.Result, &kept) // an effect without a result was answered
	return g.Class != Ambiguous && (g.Class != Permanent && g.Class != Fault || kept.Unanswered)
}

// doubted returns g as an uncertain effect. g is a claim that lapsed after its point of no return.
func (g Grant) doubted() Grant {
	g.State, g.Class, g.Error = Uncertain, Ambiguous, lapsedInDoubt
	return g
}

// Doubt is the number of uncertain effects of one kind and mode.
type Doubt struct {
	Kind, Mode string
	Effects    int
	// Since is when the first of these effects became uncertain.
	Since time.Time
}

// doubtfulSQL also counts claims that lapsed after their point of no return.
const doubtfulSQL = `
select e.kind, r.mode, count(*)::int as effects, min(e.lease_until) as since from effects e join receipts r on r.id = e.receipt_id
 where (e.state = 'uncertain' or e.state = 'claimed' and e.committing) and e.lease_until < now() - $1::interval
 group by e.kind, r.mode order by e.kind, r.mode`

const owedSQL = `
select count(*)::int, coalesce(extract(epoch from now() - min(claimed_at)), 0)::float8
  from effects where state in ('claimed', 'failed', 'uncertain') and kind = any($1)`

// Owed counts the effects of the given kinds that were begun and are not done. It also returns the age of the oldest
// one in seconds.
func (s *Store) Owed(ctx context.Context, kinds []string) (count int, seconds float64, err error) {
	if err := s.pool.QueryRow(ctx, owedSQL, kinds).Scan(&count, &seconds); err != nil {
		return 0, 0, fmt.Errorf("count effects that are not done: %w", err)
	}
	return count, seconds, nil
}

// Doubtful counts the effects that have been uncertain for at least long. It writes nothing.
func Doubtful(ctx context.Context, db schema.Querier, long time.Duration) ([]Doubt, error) {
	return schema.List[Doubt](ctx, db, "count the uncertain effects", doubtfulSQL, long)
}
