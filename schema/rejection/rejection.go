// Package rejection keeps refused requests for a short time, so that an operator can see why they were
// refused, and can admit one after the mistake is mended.
//
// It is bounded: so many per source, so many of one remote address, for so many days, with bodies cut.
// Nothing in it was ever admitted, and nothing reads it but operators.
package rejection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotFound is returned where no such rejection is kept (any more).
var ErrNotFound = errors.New("no such rejection")

// Finding is one thing that the diagnosis found.
type Finding struct {
	// Code is a stable word, Text the sentence for a person. Neither holds a secret or a signature.
	Code string `json:"code"`
	Text string `json:"text"`
}

// Rejection is one refused request.
type Rejection struct {
	ID         string    `json:"id"`
	Source     string    `json:"source"`
	ReceivedAt time.Time `json:"received_at"`
	Class      string    `json:"class"`
	Detail     string    `json:"detail"`
	Diagnosis  []Finding `json:"diagnosis"`
	// Likely is set where a signature fitted in some way: the sender has a secret of ours. Such a request is kept when
	// forged ones push others out.
	Likely     bool   `json:"likely_authentic"`
	RemoteAddr string `json:"remote_addr"`
	Method     string `json:"method"`
	// BodySize is how many bytes came in. Body holds fewer when Truncated.
	BodySize   int64      `json:"body_size"`
	Truncated  bool       `json:"truncated"`
	AdmittedAt *time.Time `json:"admitted_at"`
	// Query is the raw query of the request's URL where it is signed, else "".
	Query string `json:"-"`
	// Header holds the headers that are kept, signatures among them: it must not be shown as it is.
	Header http.Header `db:"-" json:"-"`
	Body   []byte      `json:"-"`
}

// The bounds.
const (
	// MaxBody is how many bytes of a body are kept; most events are smaller than a tenth of it.
	MaxBody = 64 << 10
	// PerSource is how many rejections of a source are kept.
	PerSource = 200
	// PerAddress is how many of them may be of one remote address (an IPv6 /64), so that one sender of rubbish
	// does not push out everybody else's.
	PerAddress = 100
	// KeptFor is for how long: past the longest time in which somebody looks at a broken webhook on
	// Monday, and past most providers' own retries.
	KeptFor = 7 * 24 * time.Hour
)

// Store keeps rejections in Postgres. It is safe for concurrent use.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

const insertSQL = `
insert into rejections (id, source, received_at, class, detail, diagnosis, likely, remote_addr, method, query, headers, body, body_size, truncated)
values (coalesce(nullif($1, '')::uuid, gen_random_uuid()), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`

// trimSQL keeps what a secret of ours has probably signed before what anybody may have sent. A request that an
// operator has admitted may go first: its event is a receipt now. An IPv6 sender owns a whole /64, which counts as
// one address; a zone, which inet does not take, is cut off.
const trimSQL = `
delete from rejections r using (
    select id, row_number() over (partition by source order by likely and admitted_at is null desc, received_at desc, id) as n,
           row_number() over (partition by source, case when remote_addr like '%:%' then network(set_masklen(split_part(remote_addr, '%', 1)::inet, 64))::text else remote_addr end
                              order by likely and admitted_at is null desc, received_at desc, id) as from_address,
           received_at
      from rejections) ranked
 where r.id = ranked.id
   and (ranked.n > $1 or ranked.from_address > $2 or ranked.received_at < now() - $3::interval)`

// Keep writes a batch and deletes the rows over the bounds, in one commit. Bodies are cut here. A
// rejection without an ID gets one.
func (s *Store) Keep(ctx context.Context, batch []Rejection) error {
	var statements pgx.Batch
	for _, r := range batch {
		statements.Queue(insertSQL, r.ID, holdable(r.Source), r.ReceivedAt, holdable(r.Class), holdable(r.Detail),
			append([]Finding{}, r.Diagnosis...), r.Likely, holdable(r.RemoteAddr), holdable(r.Method),
			holdable(r.Query), heldHeader(r.Header), append([]byte{}, r.Body[:min(len(r.Body), MaxBody)]...),
			max(r.BodySize, int64(len(r.Body))), r.Truncated || len(r.Body) > MaxBody)
	}
	statements.Queue(trimSQL, PerSource, PerAddress, KeptFor)
	if err := s.pool.SendBatch(ctx, &statements).Close(); err != nil {
		return fmt.Errorf("keep rejections: %w", err)
	}
	return nil
}

// Filter narrows a list.
type Filter struct {
	// Source, when set, is the only one listed.
	Source string
	// Limit defaults to 50.
	Limit int
}

const columns = `id::text as id, source, received_at, class, detail, diagnosis, likely, remote_addr, method, query, headers, body, body_size, truncated, admitted_at`

const listSQL = `
select ` + columns + ` from rejections
 where ($1 = '' or source = $1) and received_at >= now() - $3::interval
 order by received_at desc, id limit $2`

// List returns rejections, the newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]Rejection, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	found, err := s.query(ctx, listSQL, f.Source, f.Limit, KeptFor)
	if err != nil {
		return nil, fmt.Errorf("list rejections: %w", err)
	}
	return found, nil
}

// recentSQL leaves out what any browser is answered.
const recentSQL = `
select source, class, count(*)::int as count, min(received_at) as since from rejections
 where received_at >= $1 and admitted_at is null and class not in ('unknown_source', 'method_not_allowed')
 group by source, class order by source, class`

// Count counts the kept refusals of one source and class that nobody has admitted, and says when the first of them
// came.
type Count struct {
	Source, Class string
	Count         int
	Since         time.Time
}

// Recent counts the refusals since a time. More than [PerSource] of a source are not kept.
func (s *Store) Recent(ctx context.Context, since time.Time) ([]Count, error) {
	rows, _ := s.pool.Query(ctx, recentSQL, since) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Count])
	if err != nil {
		return nil, fmt.Errorf("count rejections: %w", err)
	}
	return found, nil
}

const getSQL = `select ` + columns + ` from kept_request($1)`

// Get returns a rejection, or [ErrNotFound]. The database refuses that to whoever has not just recorded a look at it:
// see package look.
func (s *Store) Get(ctx context.Context, id string) (Rejection, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return Rejection{}, fmt.Errorf("rejection %q: %w", id, ErrNotFound)
	}
	found, err := s.query(ctx, getSQL, u.String())
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Rejection{}, fmt.Errorf("rejection %s: %w", id, err)
	}
	return found[0], nil
}

const admittedSQL = `update rejections set admitted_at = coalesce(admitted_at, now()) where id = $1`

// MarkAdmitted notes that the request has become a receipt. It may be called twice; the first time
// stays.
func (s *Store) MarkAdmitted(ctx context.Context, id string) error {
	if _, err := s.pool.Exec(ctx, admittedSQL, id); err != nil {
		return fmt.Errorf("mark rejection %s as admitted: %w", id, err)
	}
	return nil
}

func (s *Store) query(ctx context.Context, sql string, args ...any) ([]Rejection, error) {
	rows, _ := s.pool.Query(ctx, sql, args...) // CollectRows returns its error
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Rejection, error) {
		held, err := pgx.RowToStructByName[struct {
			Rejection
			Headers map[string][][]byte
		}](row)
		r := held.Rejection
		r.Header = make(http.Header, len(held.Headers))
		for name, values := range held.Headers {
			for _, v := range values {
				r.Header[name] = append(r.Header[name], string(v))
			}
		}
		return r, err
	})
}

// heldHeader returns the values of h as bytes: jsonb takes no NUL and no invalid UTF-8, and a header
// that is not kept byte for byte cannot be verified again.
func heldHeader(h http.Header) map[string][][]byte {
	held := make(map[string][][]byte, len(h))
	for name, values := range h {
		for _, v := range values {
			held[name] = append(held[name], []byte(v))
		}
	}
	return held
}

// holdable returns s as Postgres' text can hold it. No query that is verified again is changed by it:
// net/http refuses a request line with control characters.
func holdable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}
