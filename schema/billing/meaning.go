package billing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Billing rules are identified by their hash. One version is active for all processes: the folds read it in their
// transaction, so that two workers with different configuration files do not apply different rules in turn. A process
// with another configuration file proposes its rules.

// Meaning is a version of the billing rules that was proposed or active.
type Meaning struct {
	Hash string `json:"hash"`
	// ProposedBy is the process that proposed it last, at ProposedAt.
	ProposedBy string    `json:"proposed_by"`
	ProposedAt time.Time `json:"proposed_at"`
	// Since is when it became active last, by Who and for the reason Why. It is null if it was never active.
	Since *time.Time `json:"in_force_since"`
	Who   string     `json:"who,omitempty"`
	Why   string     `json:"why,omitempty"`
	// InForce is set for the active version.
	InForce bool `json:"in_force"`
}

// ErrNoMeaning means that no billing rules have this hash.
var ErrNoMeaning = errors.New("no such meaning")

// InForce returns the active policy, or own if none is active yet.
func InForce(ctx context.Context, db schema.Querier, own fact.Policy) (fact.Policy, error) {
	rows, _ := db.Query(ctx, inForceSQL, own.Hash()) // ForEachRow returns its error
	return readInForce(rows, own)
}

// InForce is [InForce] for the database of the store.
func (s *Store) InForce(ctx context.Context, own fact.Policy) (fact.Policy, error) {
	return InForce(ctx, s.db, own)
}

// HashInForce returns the hash of the active rules, or "".
func HashInForce(ctx context.Context, db schema.Querier) (string, error) {
	return one(ctx, db, "the hash of the meaning in force", pgx.RowTo[string], hashInForceSQL)
}

// Named returns the policy with a hash, or [ErrNoMeaning].
func Named(ctx context.Context, db schema.Querier, hash string) (p fact.Policy, err error) {
	found, err := one(ctx, db, "meaning "+hash, pgx.RowTo[*fact.Policy], meaningSQL, hash)
	if err == nil && found == nil {
		err = ErrNoMeaning
	}
	if err != nil {
		return p, err
	}
	return found.Sealed(), nil
}

// Propose records the policy of a process, with the active links. It returns the hash of the proposed and of the active
// policy. The first proposed policy becomes active.
func Propose(ctx context.Context, db beginner, p fact.Policy, by string) (proposed, inForce string, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if p, err = WithLinks(ctx, tx, p); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, proposeSQL, p.Hash(), p.Canonical(), by); err != nil {
			return err
		}
		if inForce, err = HashInForce(ctx, tx); err != nil || inForce != "" {
			return err
		}
		if _, err := tx.Exec(ctx, lockMeaningSQL); err != nil {
			return err
		}
		if inForce, err = HashInForce(ctx, tx); err != nil || inForce != "" { // another process was faster
			return err
		}
		inForce = p.Hash()
		_, err = tx.Exec(ctx, switchSQL, inForce, by, "the first that was proposed")
		return err
	})
	if err != nil {
		return "", "", fmt.Errorf("propose a meaning: %w", err)
	}
	return p.Hash(), inForce, nil
}

// ErrSwitched means that other rules have become active in the meantime.
var ErrSwitched = errors.New("another meaning has come into force")

// Switch activates other rules instead of the rules with the hash from ("" if none are active), in tx. It waits until
// the running folds have ended, and later folds wait for tx. [TouchedSince] then returns all accounts that were folded
// with the earlier rules. It returns [ErrSwitched] if the rules with the hash from are not active.
func Switch(ctx context.Context, tx pgx.Tx, from string, to fact.Policy, who, why string) error {
	inForce := ""
	_, err := tx.Exec(ctx, lockMeaningSQL)
	if err == nil {
		inForce, err = HashInForce(ctx, tx)
	}
	if err == nil && inForce != from {
		return ErrSwitched
	}
	if err == nil {
		_, err = tx.Exec(ctx, keepSQL, to.Hash(), to.Canonical(), who)
	}
	if err == nil {
		_, err = tx.Exec(ctx, switchSQL, to.Hash(), who, why)
	}
	if err != nil {
		return fmt.Errorf("switch to meaning %s: %w", to.Hash(), err)
	}
	return nil
}

// Meanings returns all versions: the active one first, then the others by the time of their last proposal. There is one
// version for each configuration that a process had.
func Meanings(ctx context.Context, db schema.Querier) ([]Meaning, error) {
	return schema.Rows(ctx, db, "read the meanings", pgx.RowToStructByName[Meaning], meaningsSQL)
}

// proposed is how long a proposal counts. A worker repeats its proposal each minute.
const proposed = 5 * time.Minute

// Proposals returns the versions that running processes have proposed since the active one became active.
func Proposals(ctx context.Context, db schema.Querier) ([]Meaning, error) {
	list, err := Meanings(ctx, db)
	if err != nil || len(list) == 0 || !list[0].InForce {
		return nil, err
	}
	since := *list[0].Since
	return slices.DeleteFunc(list, func(m Meaning) bool {
		return m.InForce || m.ProposedAt.Before(since) || time.Since(m.ProposedAt) > proposed
	}), nil
}

// TouchedSince returns the accounts that were folded since a time.
func TouchedSince(ctx context.Context, db schema.Querier, at time.Time) ([]Scope, error) {
	return schema.Rows(ctx, db, "read the accounts that were folded", pgx.RowToStructByPos[Scope], touchedSQL, at)
}

// readMeaning reads the active rules for the fold. They cannot change before the end of the transaction. Their lock
// comes before all others, because a waiting change of the rules blocks further folds.
func (a *applying) readMeaning(b *pgx.Batch) {
	if a.how == inScratch {
		return
	}
	b.Queue(holdMeaningSQL)
	b.Queue(inForceSQL, a.policy.Hash()).Query(func(rows pgx.Rows) (err error) {
		a.policy, err = readInForce(rows, a.policy)
		return err
	})
}

// readInForce returns the policy that inForceSQL finds. It returns own if none is active, or if own is active.
func readInForce(rows pgx.Rows, own fact.Policy) (fact.Policy, error) {
	var hash string
	var body []byte
	_, err := pgx.ForEachRow(rows, []any{&hash, &body}, func() (err error) {
		if body != nil {
			own, err = own.Stored(hash, body)
		}
		return err
	})
	if err != nil {
		return own, fmt.Errorf("read the meaning in force: %w", err)
	}
	return own, nil
}

type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// The lock of the rules ends with the transaction. Folds share it. It is a separate statement, because a statement that
// waits for a lock reads the data from before the wait.
const (
	holdMeaningSQL = `select pg_advisory_xact_lock_shared(hashtextextended('meaning', 0))`
	lockMeaningSQL = `select pg_advisory_xact_lock(hashtextextended('meaning', 0))`
)

const hashInForceSQL = `select hash from meaning_switches order by id desc limit 1`

// inForceSQL returns no body if the caller has the active version.
const inForceSQL = `
select hash, case when hash <> $1 then body end from meanings where hash = (` + hashInForceSQL + `)`

const meaningSQL = `select body from meanings where hash = $1`

const proposeSQL = `
insert into meanings (hash, body, proposed_by) values ($1, $2, $3)
    on conflict (hash) do update set proposed_by = excluded.proposed_by, proposed_at = now()`

// keepSQL does not change an existing version.
const keepSQL = `insert into meanings (hash, body, proposed_by) values ($1, $2, $3) on conflict do nothing`

const switchSQL = `insert into meaning_switches (hash, who, why) values ($1, $2, $3)`

const meaningsSQL = `
select m.hash, m.proposed_by, m.proposed_at, s.at as since, coalesce(s.who, '') as who, coalesce(s.why, '') as why,
       s.id is not null and s.id = (select max(id) from meaning_switches) as in_force
  from meanings m
  left join lateral (select * from meaning_switches s where s.hash = m.hash order by id desc limit 1) s on true
 order by in_force desc, m.proposed_at desc, m.hash`

// touchedSQL reads all accounts. A change of the rules is rare, and an index would slow down every event.
const touchedSQL = `select mode, id from accounts where folded_at >= $1 order by mode, id`
