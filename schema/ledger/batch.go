package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// batch combines a list of ops into at most one statement of each kind. It maps the results back to one outcome per op.
type batch struct {
	ops      []op
	outcomes []outcome
	// claims maps each key to the index of its op. marks and finishes map each claim to an index, because one flush may
	// contain marks of the current and of an earlier claim of a key.
	claims          map[string]int
	marks, finishes map[hold]int
}

func newBatch(ops []op) *batch {
	b := &batch{
		ops: ops, outcomes: make([]outcome, len(ops)),
		claims: map[string]int{}, marks: map[hold]int{}, finishes: map[hold]int{},
	}
	exclusive := map[string]bool{}
	for i, o := range ops {
		switch {
		case o.claim != nil:
			// If one flush contains two claims of the same key, or of the same exclusive name, only the first is
			// executed. The second is not granted.
			if _, taken := b.claims[o.claim.Key]; !taken && !exclusive[o.claim.Exclusive] {
				b.claims[o.claim.Key] = i
				exclusive[o.claim.Exclusive] = o.claim.Exclusive != ""
			}
		case o.mark != nil:
			b.marks[*o.mark] = i
		case o.finish != nil:
			b.finishes[hold{o.finish.Key, o.finish.Token}] = i
		}
	}
	return b
}

// queue adds the statements to a pipeline, which Postgres executes in one transaction. Finishes come first, so that the
// flush can claim the keys that they release.
func (b *batch) queue(q *pgx.Batch) {
	b.queueLocks(q)
	b.queueFinishes(q)
	b.queueMarks(q)
	b.queueClaims(q)
	b.queueSightings(q)
}

// holds returns the claims in m, sorted by key, which is the lock order of this package.
func holds(m map[hold]int) []hold {
	return slices.SortedFunc(maps.Keys(m), func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.token, b.token))
	})
}

// If there is more than one statement, queueLocks first locks the rows of all statements in the lock order. Each
// statement alone keeps the order, but several together do not. Without these locks, two workers would deadlock if each
// finished one effect and claimed the other's.
func (b *batch) queueLocks(q *pgx.Batch) {
	keys := map[string]bool{}
	for key := range b.claims {
		keys[key] = true
	}
	for c := range b.marks {
		keys[c.key] = true
	}
	undos := false
	for c, i := range b.finishes {
		keys[c.key] = true
		if f := b.ops[i].finish; f.undoes() {
			keys[f.Compensates], undos = true, true
		}
	}
	if one := max(len(b.claims), len(b.marks), len(b.finishes)); undos || len(b.claims)+len(b.marks)+
		len(b.finishes) > one {
		q.Queue(lockSQL, slices.Sorted(maps.Keys(keys)))
	}
}

type finishRow struct {
	Key       string
	Token     int64
	State     State
	Result    json.RawMessage
	Error     string
	Class     Class
	StartedAt time.Time
}

var finishColumns = schema.ColumnsOf[finishRow](finishSQL)

func (b *batch) queueFinishes(q *pgx.Batch) {
	claims := holds(b.finishes)
	if len(claims) == 0 {
		return
	}
	var rows []finishRow
	var compensated []string
	for _, c := range claims {
		f := b.ops[b.finishes[c]].finish
		rows = append(rows,
			finishRow{f.Key, f.Token, f.State, cleanJSON(f.Result), clean(f.Error), f.Class, f.StartedAt})
		if f.undoes() {
			compensated = append(compensated, f.Compensates)
		}
	}
	q.Queue(finishSQL, finishColumns.Args(rows)...).Query(func(rows pgx.Rows) error {
		var (
			c      hold
			result json.RawMessage
		)
		_, err := pgx.ForEachRow(rows, []any{&c.key, &c.token, &result}, func() error {
			b.outcomes[b.finishes[c]].finished = Finished{Held: true, Result: slices.Clone(result)}
			return nil
		})
		return err
	})
	if len(compensated) > 0 {
		slices.Sort(compensated)
		q.Queue(compensateSQL, compensated)
	}
	for _, c := range claims {
		for _, also := range b.ops[b.finishes[c]].finish.Also {
			q.Queue(also.SQL, cleanArgs(also.Args)...)
		}
	}
}

func (b *batch) queueMarks(q *pgx.Batch) {
	if len(b.marks) == 0 {
		return
	}
	var (
		keyList []string
		tokens  []int64
	)
	for _, c := range holds(b.marks) {
		keyList, tokens = append(keyList, c.key), append(tokens, c.token)
	}
	q.Queue(markSQL, keyList, tokens).Query(func(rows pgx.Rows) error {
		var c hold
		_, err := pgx.ForEachRow(rows, []any{&c.key, &c.token}, func() error {
			b.outcomes[b.marks[c]].held = true
			return nil
		})
		return err
	})
}

type claimRow struct {
	*Claim
	Lease float64 // in seconds
}

var claimColumns = schema.ColumnsOf[claimRow](claimSQL)

func (b *batch) queueClaims(q *pgx.Batch) {
	if len(b.claims) == 0 {
		return
	}
	keyList := slices.Sorted(maps.Keys(b.claims)) // rows are locked in this order
	rows := make([]claimRow, len(keyList))
	for i, key := range keyList {
		c := b.ops[b.claims[key]].claim
		rows[i] = claimRow{c, c.Lease.Seconds()}
	}
	q.Queue(claimSQL, claimColumns.Args(rows)...).Query(func(rows pgx.Rows) error {
		var (
			key string
			g   Grant
		)
		_, err := pgx.ForEachRow(rows,
			[]any{&key, &g.Token, &g.Generation, &g.Attempt, &g.Round, &g.Request, &g.ClaimedAt, &g.Age, &g.Failures,
				&g.Trying}, func() error {
				g.Granted, g.State = true, Claimed
				g.Request = slices.Clone(g.Request)
				b.outcomes[b.claims[key]].grant = g
				return nil
			})
		return err
	})
}

var sightColumns = schema.ColumnsOf[Sighting](sightSQL)

func (b *batch) queueSightings(q *pgx.Batch) {
	var rows []Sighting
	for _, o := range b.ops {
		if o.sight != nil {
			rows = append(rows, *o.sight)
		}
	}
	if len(rows) > 0 {
		q.Queue(sightSQL, sightColumns.Args(rows)...)
	}
}

// readRefused reads the state of the keys that were not granted.
func (b *batch) readRefused(ctx context.Context, db Tx) error {
	refused, exclusive := map[string][]int{}, map[string]bool{}
	for i, o := range b.ops {
		if o.claim != nil && !b.outcomes[i].grant.Granted {
			refused[o.claim.Key] = append(refused[o.claim.Key], i)
			if o.claim.Exclusive != "" {
				exclusive[o.claim.Exclusive] = o.claim.Unmarked
			}
		}
	}
	if len(refused) == 0 {
		return nil
	}
	found, err := read(ctx, db, slices.Collect(maps.Keys(refused)))
	if err != nil {
		return err
	}
	held := map[string]time.Time{}
	if len(exclusive) > 0 {
		if held, err = readHolders(ctx, db, exclusive); err != nil {
			return err
		}
	}
	var unexplained []*Claim
	for key, list := range refused {
		for _, i := range list {
			g, known := found[key]
			claim := b.ops[i].claim
			// If the key could be claimed, the claim was refused for one of two other reasons. The effect belongs to
			// another receipt, or another effect holds the same exclusive name. The state of the last attempt explains
			// neither.
			mayBeTried := !known || g.Claimable(claim.Round)
			if mayBeTried || g.State == Claimed && g.LeaseUntil.Before(time.Now()) {
				unexplained = append(unexplained, claim)
			}
			if mayBeTried {
				g = Grant{State: Claimed, LeaseUntil: held[claim.Exclusive]}
			}
			b.outcomes[i].grant = g
		}
	}
	return b.readForeign(ctx, db, unexplained)
}

// readForeign marks the claims with an event or a key that does not match their receipt.
func (b *batch) readForeign(ctx context.Context, db Tx, claims []*Claim) error {
	if len(claims) == 0 {
		return nil
	}
	keys, err := foreign(ctx, db, claims)
	for i, o := range b.ops {
		b.outcomes[i].foreign = o.claim != nil && slices.Contains(keys, o.claim.Key) && slices.Contains(claims, o.claim)
	}
	return err
}

var foreignColumns = schema.ColumnsOf[*Claim](foreignSQL)

// foreign returns the keys of claims with an event or a key that does not match their receipt.
func foreign(ctx context.Context, db Tx, claims []*Claim) (keys []string, err error) {
	return schema.List[string](ctx, db, "compare claims with their receipts", foreignSQL,
		foreignColumns.Args(claims)...)
}

// readHolders returns, for each exclusive name, until when another claim holds it. If the lease of that claim has
// ended, readHolders ends the claim, so that a terminated run does not hold the name forever. unmarked maps each name
// to the [Claim.Unmarked] of its effects.
func readHolders(ctx context.Context, db Tx, unmarked map[string]bool) (until map[string]time.Time, err error) {
	holders, err := schema.List[struct {
		Name       string
		LeaseUntil time.Time
		Lapsed     bool
	}](ctx, db, "read the holders of exclusive names", holdersSQL, slices.Collect(maps.Keys(unmarked)))
	until = map[string]time.Time{}
	for _, h := range holders {
		if until[h.Name] = h.LeaseUntil; h.Lapsed {
			if err := schema.Exec(ctx, db, "let go of "+h.Name, letGoSQL, h.Name, unmarked[h.Name]); err != nil {
				return nil, err
			}
		}
	}
	return until, err
}

func read(ctx context.Context, db Tx, list []string) (map[string]Grant, error) {
	found := map[string]Grant{}
	rows, err := records(ctx, db, list)
	for _, r := range rows {
		if found[r.Key] = r.Grant; r.doubtful() {
			found[r.Key] = r.doubted()
			if err := schema.Exec(ctx, db, "record that "+r.Key+" is in doubt", doubtSQL, r.Key); err != nil {
				return nil, err
			}
		}
	}
	return found, err
}
