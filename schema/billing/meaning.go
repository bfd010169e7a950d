package billing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// A policy is known by its hash. One is in force for all processes: the folds read it in their transaction, so that two
// workers whose files differ do not fold by turns. A process whose file says something else proposes that.

// Meaning is a policy that was proposed, or that was in force.
type Meaning struct {
	Hash string `json:"hash"`
	// ProposedBy names the process that has last proposed it, at ProposedAt.
	ProposedBy string    `json:"proposed_by"`
	ProposedAt time.Time `json:"proposed_at"`
	// Since is when it came into force last, by Who and for Why; null where it never was.
	Since *time.Time `json:"in_force_since"`
	Who   string     `json:"who,omitempty"`
	Why   string     `json:"why,omitempty"`
	// InForce is set for the one that is in force.
	InForce bool `json:"in_force"`
}

// ErrNoMeaning means that no meaning has that hash.
var ErrNoMeaning = errors.New("no such meaning")

// Sealed returns the policy with its hash, which a fold compares with that of the one in force.
func (p Policy) Sealed() Policy {
	hash := sha256.Sum256(p.canonical())
	p.hash = hex.EncodeToString(hash[:8])
	return p
}

// Hash names what a policy says: the same for two that say the same.
func (p Policy) Hash() string {
	if p.hash == "" {
		p = p.Sealed()
	}
	return p.hash
}

// canonical is what a policy says, the same bytes for the same meaning.
func (p Policy) canonical() []byte {
	p.Prices, p.Features = maps.Clone(p.Prices), maps.Clone(p.Features)
	for name, price := range p.Prices {
		price.AddOn = set(price.AddOn)
		p.Prices[name] = price
	}
	for plan, features := range p.Features {
		p.Features[plan] = set(features)
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has nothing that JSON cannot say
	}
	return data
}

// MarshalText makes the name of a connected account in a policy's canonical form.
func (c Connected) MarshalText() ([]byte, error) { return []byte(c.Mode + "/" + c.ID), nil }

// UnmarshalText reads what MarshalText has made.
func (c *Connected) UnmarshalText(text []byte) error {
	var found bool
	if c.Mode, c.ID, found = strings.Cut(string(text), "/"); !found {
		return fmt.Errorf("%q names no connected account", text)
	}
	return nil
}

// InForce returns the policy that is in force, or own where none is yet.
func InForce(ctx context.Context, db schema.Querier, own Policy) (Policy, error) {
	rows, _ := db.Query(ctx, inForceSQL, own.hash) // ForEachRow returns its error
	err := own.readInForce(rows)
	return own, err
}

// InForce is [InForce] of the store's database.
func (s *Store) InForce(ctx context.Context, own Policy) (Policy, error) {
	return InForce(ctx, s.db, own)
}

// HashInForce returns the hash of the meaning in force, "" for none.
func HashInForce(ctx context.Context, db schema.Querier) (string, error) {
	p, err := InForce(ctx, db, Policy{})
	return p.hash, err
}

// Named returns the policy with a hash, or [ErrNoMeaning].
func Named(ctx context.Context, db schema.Querier, hash string) (p Policy, err error) {
	found, err := one(ctx, db, "meaning "+hash, pgx.RowTo[*Policy], meaningSQL, hash)
	if err == nil && found == nil {
		err = ErrNoMeaning
	}
	if err != nil {
		return p, err
	}
	return found.Sealed(), nil
}

// Propose tells that a process has a policy in its file, to which it adds the links in force. It returns the hashes of
// that, and of the one in force. The first that is proposed comes into force.
func Propose(ctx context.Context, db beginner, p Policy, by string) (proposed, inForce string, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if p, err = p.WithLinks(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, proposeSQL, p.Hash(), p.canonical(), by); err != nil {
			return err
		}
		if inForce, err = HashInForce(ctx, tx); err != nil || inForce != "" {
			return err
		}
		if _, err := tx.Exec(ctx, lockMeaningSQL); err != nil {
			return err
		}
		if inForce, err = HashInForce(ctx, tx); err != nil || inForce != "" { // another process was the first
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

// ErrSwitched means that another meaning has come into force meanwhile.
var ErrSwitched = errors.New("another meaning has come into force")

// Switch brings a meaning into force in place of the one with the hash from, "" for none, in tx. It waits until the
// folds that are under way have ended, and the next ones wait for tx: so the accounts that [TouchedSince] returns then
// are all that were folded by the one before. Its error is [ErrSwitched] where that one is not in force.
func Switch(ctx context.Context, tx pgx.Tx, from string, to Policy, who, why string) error {
	inForce := ""
	_, err := tx.Exec(ctx, lockMeaningSQL)
	if err == nil {
		inForce, err = HashInForce(ctx, tx)
	}
	if err == nil && inForce != from {
		return ErrSwitched
	}
	if err == nil {
		_, err = tx.Exec(ctx, keepSQL, to.Hash(), to.canonical(), who)
	}
	if err == nil {
		_, err = tx.Exec(ctx, switchSQL, to.Hash(), who, why)
	}
	if err != nil {
		return fmt.Errorf("switch to meaning %s: %w", to.Hash(), err)
	}
	return nil
}

// Meanings returns the meanings, the one in force first, then those proposed last. It is read whole: there is one for
// each configuration that a process had.
func Meanings(ctx context.Context, db schema.Querier) ([]Meaning, error) {
	return schema.Rows(ctx, db, "read the meanings", pgx.RowToStructByName[Meaning], meaningsSQL)
}

// proposed is how long a meaning counts as proposed: a worker proposes its own each minute.
const proposed = 5 * time.Minute

// Proposals returns the meanings that running processes propose in place of the one in force, and have proposed since
// that one is.
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

// readMeaning has the fold go by the meaning in force. Nobody switches it before the transaction ends. Its lock comes
// before all others, since a switch that waits lets no further fold have it.
func (a *applying) readMeaning(b *pgx.Batch) {
	if a.how == inScratch {
		return
	}
	b.Queue(holdMeaningSQL)
	b.Queue(inForceSQL, a.policy.hash).Query(func(rows pgx.Rows) error {
		return a.policy.readInForce(rows)
	})
}

// readInForce makes a policy the one that inForceSQL finds. It stays as it is where none is in force, and where it is
// that one.
func (p *Policy) readInForce(rows pgx.Rows) error {
	var hash string
	var body []byte
	_, err := pgx.ForEachRow(rows, []any{&hash, &body}, func() error {
		if body == nil {
			return nil
		}
		*p = Policy{EffectsFrom: p.EffectsFrom, Linked: p.Linked, hash: hash}
		return json.Unmarshal(body, p)
	})
	if err != nil {
		return fmt.Errorf("read the meaning in force: %w", err)
	}
	return nil
}

type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// The lock of the meaning ends with the transaction. Folds share it. It is a statement of its own: what is read with it
// would be as it was before the wait.
const (
	holdMeaningSQL = `select pg_advisory_xact_lock_shared(hashtextextended('meaning', 0))`
	lockMeaningSQL = `select pg_advisory_xact_lock(hashtextextended('meaning', 0))`
)

// inForceSQL leaves the body out for the one that the caller has.
const inForceSQL = `
select hash, case when hash <> $1 then body end
  from meanings where hash = (select hash from meaning_switches order by id desc limit 1)`

const meaningSQL = `select body from meanings where hash = $1`

const proposeSQL = `
insert into meanings (hash, body, proposed_by) values ($1, $2, $3)
    on conflict (hash) do update set proposed_by = excluded.proposed_by, proposed_at = now()`

// keepSQL leaves one that was proposed as it is.
const keepSQL = `insert into meanings (hash, body, proposed_by) values ($1, $2, $3) on conflict do nothing`

const switchSQL = `insert into meaning_switches (hash, who, why) values ($1, $2, $3)`

const meaningsSQL = `
select m.hash, m.proposed_by, m.proposed_at, s.at as since, coalesce(s.who, '') as who, coalesce(s.why, '') as why,
       s.id is not null and s.id = (select max(id) from meaning_switches) as in_force
  from meanings m
  left join lateral (select * from meaning_switches s where s.hash = m.hash order by id desc limit 1) s on true
 order by in_force desc, m.proposed_at desc, m.hash`

// touchedSQL reads all accounts: a switch is rare, and an index would cost every event.
const touchedSQL = `select mode, id from accounts where folded_at >= $1 order by mode, id`
