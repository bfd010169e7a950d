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

// Billing rules are identified by their hash. One version is active for all processes, and folds read it in their own
// transaction. Two workers with different configuration files therefore never apply different rules. A process with
// another configuration file only proposes its rules.

// RulesVersion is a version of the billing rules that was proposed or active.
type RulesVersion struct {
	Hash string `json:"hash"`
	// ProposedBy is the process that last proposed the rules, and ProposedAt the time.
	ProposedBy string    `json:"process"`
	ProposedAt time.Time `json:"proposed_at"`
	// Since is when the rules last became active. Actor activated them, with this reason. It is null if they were never
	// active.
	Since  *time.Time `json:"activated_at"`
	Actor  string     `json:"actor,omitempty"`
	Reason string     `json:"reason,omitempty"`
	// Active is set if these rules are active.
	Active bool `json:"active"`
}

// ErrNoRules means that no billing rules have this hash.
var ErrNoRules = errors.New("no such billing rules")

// ActiveRules returns the active policy, or own if none is active yet.
func ActiveRules(ctx context.Context, db schema.Querier, own fact.Policy) (fact.Policy, error) {
	rows, _ := db.Query(ctx, activeRulesSQL, own.Hash()) // ForEachRow returns its error
	return readActiveRules(rows, own)
}

// ActiveRules calls the function [ActiveRules] with the database of the store.
func (s *Store) ActiveRules(ctx context.Context, own fact.Policy) (fact.Policy, error) {
	return ActiveRules(ctx, s.db, own)
}

// ActiveRulesHash returns the hash of the active rules, or "".
func ActiveRulesHash(ctx context.Context, db schema.Querier) (string, error) {
	return one(ctx, db, "the hash of the active billing rules", pgx.RowTo[string], activeHashSQL)
}

// RulesByHash returns the policy with the given hash, or [ErrNoRules].
func RulesByHash(ctx context.Context, db schema.Querier, hash string) (p fact.Policy, err error) {
	found, err := one(ctx, db, "billing rules "+hash, pgx.RowTo[*fact.Policy], rulesSQL, hash)
	if err == nil && found == nil {
		err = ErrNoRules
	}
	if err != nil {
		return p, err
	}
	return found.Sealed(), nil
}

// Propose stores the billing rules of a process, including the links of connected accounts that are active. by names
// the process. Propose returns the hash of the stored rules and the hash of the active rules. If no rules are active
// yet, the stored rules become active.
func Propose(ctx context.Context, db beginner, p fact.Policy, by string) (proposed, active string, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if p, err = WithLinks(ctx, tx, p); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, proposeSQL, p.Hash(), p.Canonical(), by); err != nil {
			return err
		}
		if active, err = ActiveRulesHash(ctx, tx); err != nil || active != "" {
			return err
		}
		if _, err := tx.Exec(ctx, lockRulesSQL); err != nil {
			return err
		}
		// another process has activated its rules first
		if active, err = ActiveRulesHash(ctx, tx); err != nil || active != "" {
			return err
		}
		active = p.Hash()
		_, err = tx.Exec(ctx, activateSQL, active, by, "the first that was proposed")
		return err
	})
	if err != nil {
		return "", "", fmt.Errorf("propose billing rules: %w", err)
	}
	return p.Hash(), active, nil
}

// ErrRulesChanged means that other rules have become active in the meantime.
var ErrRulesChanged = errors.New("other billing rules have become active")

// ActivateRules activates the rules to instead of the rules with the hash from, in tx. from is "" if none are active.
// ActivateRules waits until running calls of [Apply] have ended; later calls wait until tx ends. After that,
// [TouchedSince] returns all accounts that were computed with the earlier rules. ActivateRules returns
// [ErrRulesChanged] if the active rules do not have the hash from.
func ActivateRules(ctx context.Context, tx pgx.Tx, from string, to fact.Policy, who, why string) error {
	active := ""
	_, err := tx.Exec(ctx, lockRulesSQL)
	if err == nil {
		active, err = ActiveRulesHash(ctx, tx)
	}
	if err == nil && active != from {
		return ErrRulesChanged
	}
	if err == nil {
		_, err = tx.Exec(ctx, keepSQL, to.Hash(), to.Canonical(), who)
	}
	if err == nil {
		_, err = tx.Exec(ctx, activateSQL, to.Hash(), who, why)
	}
	if err != nil {
		return fmt.Errorf("activate the billing rules %s: %w", to.Hash(), err)
	}
	return nil
}

// RulesVersions returns all versions: the active one first, then the others by the time of their last proposal. There
// is one version for each different configuration that a process proposed.
func RulesVersions(ctx context.Context, db schema.Querier) ([]RulesVersion, error) {
	return schema.Rows(ctx, db, "read the billing rules", pgx.RowToStructByName[RulesVersion], rulesVersionsSQL)
}

// proposed is how long a proposal remains valid. A running worker repeats its proposal every minute.
const proposed = 5 * time.Minute

// Proposals returns the versions that running processes have proposed since the last change of the active rules.
func Proposals(ctx context.Context, db schema.Querier) ([]RulesVersion, error) {
	list, err := RulesVersions(ctx, db)
	if err != nil || len(list) == 0 || !list[0].Active {
		return nil, err
	}
	since := *list[0].Since
	return slices.DeleteFunc(list, func(v RulesVersion) bool {
		return v.Active || v.ProposedAt.Before(since) || time.Since(v.ProposedAt) > proposed
	}), nil
}

// TouchedSince returns the accounts that were computed since a time.
func TouchedSince(ctx context.Context, db schema.Querier, at time.Time) ([]Scope, error) {
	return schema.Rows(ctx, db, "read the accounts that were folded", pgx.RowToStructByPos[Scope], touchedSQL, at)
}

// readRules reads the active rules. The rules cannot change before the transaction ends. Apply locks the rules before
// anything else, because a pending change of the rules blocks further calls of Apply.
func (a *applying) readRules(b *pgx.Batch) {
	if a.how == inScratch {
		return
	}
	b.Queue(shareRulesSQL)
	b.Queue(activeRulesSQL, a.policy.Hash()).Query(func(rows pgx.Rows) (err error) {
		a.policy, err = readActiveRules(rows, a.policy)
		return err
	})
}

// readActiveRules reads the result of activeRulesSQL. It returns own if no rules are active, or if own is active.
func readActiveRules(rows pgx.Rows, own fact.Policy) (fact.Policy, error) {
	var hash string
	var body []byte
	_, err := pgx.ForEachRow(rows, []any{&hash, &body}, func() (err error) {
		if body != nil {
			own, err = own.Stored(hash, body)
		}
		return err
	})
	if err != nil {
		return own, fmt.Errorf("read the active billing rules: %w", err)
	}
	return own, nil
}

type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Folds share the lock of the rules, which ends with the transaction. The lock has a statement of its own. A statement
// that waits for a lock would read the data as it was before the wait.
const (
	shareRulesSQL = `select pg_advisory_xact_lock_shared(hashtextextended('billing rules', 0))`
	lockRulesSQL  = `select pg_advisory_xact_lock(hashtextextended('billing rules', 0))`
)

const activeHashSQL = `select hash from billing_rules_changes order by id desc limit 1`

// activeRulesSQL returns no body if the active rules have the hash of the caller's rules.
const activeRulesSQL = `
select hash, case when hash <> $1 then body end from billing_rules where hash = (` + activeHashSQL + `)`

const rulesSQL = `select body from billing_rules where hash = $1`

const proposeSQL = `
insert into billing_rules (hash, body, proposed_by) values ($1, $2, $3)
    on conflict (hash) do update set proposed_by = excluded.proposed_by, proposed_at = now()`

const keepSQL = `insert into billing_rules (hash, body, proposed_by) values ($1, $2, $3) on conflict do nothing`

const activateSQL = `insert into billing_rules_changes (hash, who, why) values ($1, $2, $3)`

const rulesVersionsSQL = `
select m.hash, m.proposed_by, m.proposed_at, s.at as since, coalesce(s.who, '') as actor, coalesce(s.why, '') as reason,
       s.id is not null and s.id = (select max(id) from billing_rules_changes) as active
  from billing_rules m
  left join lateral (select * from billing_rules_changes s where s.hash = m.hash order by id desc limit 1) s on true
 order by active desc, m.proposed_at desc, m.hash`

// touchedSQL reads the whole table. Changes of the rules are rare, and an index would slow down every event.
const touchedSQL = `select mode, id from accounts where folded_at >= $1 order by mode, id`
