// Package rejection stores rejected requests for a short time, so that an operator can see the reason, and can admit a
// request after the mistake is corrected.
//
// It limits how many requests are stored per source and per remote address, how long they are stored, and how much of
// each body is stored. Rejected requests are not trusted; only operators can read them.
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

// ErrNotFound means that the rejection does not exist, or was deleted.
var ErrNotFound = errors.New("no such rejection")

// Finding is one finding of the diagnosis.
type Finding struct {
	// Code is a stable identifier. Text is a sentence for people. Neither contains a secret or a signature.
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
	// Likely is set if one of the configured secrets fits the signature in some way, so that the sender is probably the
	// provider. If there are too many rejections, other requests are deleted first.
	Likely     bool   `json:"likely_authentic"`
	RemoteAddr string `json:"remote_addr"`
	Method     string `json:"method"`
	// BodySize is the number of received bytes. Body is shorter if Truncated is set.
	BodySize   int64      `json:"body_size"`
	Truncated  bool       `json:"truncated"`
	AdmittedAt *time.Time `json:"admitted_at"`
	// Query is the raw query of the URL if the signature covers it, else "".
	Query string `json:"-"`
	// Header contains the stored headers, including signatures. Show it only with the signatures masked.
	Header http.Header `db:"-" json:"-"`
	Body   []byte      `json:"-"`
}

// The limits.
const (
	// MaxBody is how many bytes of a body are stored. Most events are smaller than a tenth of it.
	MaxBody = 64 << 10
	// PerSource is how many rejections of a source are stored.
	PerSource = 200
	// PerAddress is how many rejections of a source are stored per remote address (an IPv6 /64), so that one sender of
	// invalid requests does not displace the others.
	PerAddress = 100
	// KeptFor is how long rejections are stored: longer than a weekend, and longer than the retries of most providers.
	KeptFor = 7 * 24 * time.Hour
)

// Store keeps rejections in Postgres. It is safe for concurrent use.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

const insertSQL = `
insert into rejections (id, source, received_at, class, detail, diagnosis, likely, remote_addr, method, query, headers, body, body_size, truncated)
values (coalesce(nullif($1, '')::uuid, gen_random_uuid()), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`

// trimSQL deletes the rejections that exceed the limits. It deletes requests last that were probably signed with a
// configured secret. It may delete an admitted request early, because its event has a receipt. All addresses of an IPv6
// /64 are one address, because one sender owns them all. The IPv6 zone is removed, because inet does not accept it.
const trimSQL = `
delete from rejections r using (
    select id, row_number() over (partition by source order by likely and admitted_at is null desc, received_at desc, id) as n,
           row_number() over (partition by source, case when remote_addr like '%:%' then network(set_masklen(split_part(remote_addr, '%', 1)::inet, 64))::text else remote_addr end
                              order by likely and admitted_at is null desc, received_at desc, id) as from_address,
           received_at
      from rejections) ranked
 where r.id = ranked.id
   and (ranked.n > $1 or ranked.from_address > $2 or ranked.received_at < now() - $3::interval)`

// Keep stores a batch of rejections with truncated bodies, and deletes the rows that exceed the limits, in one commit.
// A rejection without an ID gets one.
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
	// Source, if set, restricts the list to one source.
	Source string
	// Limit defaults to 50.
	Limit int
}

// summary has all columns except the query, the headers and the body, which only some roles may read.
const (
	summary = `id::text as id, source, received_at, class, detail, diagnosis, likely, remote_addr, method, body_size, truncated, admitted_at`
	columns = summary + `, query, headers, body`
	short   = summary + `, '' as query, '{}'::jsonb as headers, ''::bytea as body`
)

const listSQL = `
select ` + short + ` from rejections
 where ($1 = '' or source = $1) and received_at >= now() - $3::interval
 order by received_at desc, id limit $2`

// List returns rejections without their queries, headers and bodies, the newest first.
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

// recentSQL omits rejections that any web browser can cause.
const recentSQL = `
select source, class, count(*)::int as count, min(received_at) as since from rejections
 where received_at >= $1 and admitted_at is null and class not in ('unknown_source', 'method_not_allowed')
 group by source, class order by source, class`

// Count is the number of stored rejections of one source and class that were not admitted. Since is the time of the
// first one.
type Count struct {
	Source, Class string
	Count         int
	Since         time.Time
}

// Recent counts the rejections since a time. The count is at most [PerSource] per source, because no more are stored.
func (s *Store) Recent(ctx context.Context, since time.Time) ([]Count, error) {
	rows, _ := s.pool.Query(ctx, recentSQL, since) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Count])
	if err != nil {
		return nil, fmt.Errorf("count rejections: %w", err)
	}
	return found, nil
}

const getSQL = `select ` + columns + ` from rejections where id = $1`

const findSQL = `select ` + short + ` from rejections where id = $1`

// Get returns a rejection, or [ErrNotFound].
func (s *Store) Get(ctx context.Context, id string) (Rejection, error) { return s.one(ctx, getSQL, id) }

// Find returns a rejection without its query, headers and body, or [ErrNotFound].
func (s *Store) Find(ctx context.Context, id string) (Rejection, error) {
	return s.one(ctx, findSQL, id)
}

func (s *Store) one(ctx context.Context, sql, id string) (Rejection, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return Rejection{}, fmt.Errorf("rejection %q: %w", id, ErrNotFound)
	}
	found, err := s.query(ctx, sql, u.String())
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Rejection{}, fmt.Errorf("rejection %s: %w", id, err)
	}
	return found[0], nil
}

const admittedSQL = `update rejections set admitted_at = coalesce(admitted_at, now()) where id = $1`

// MarkAdmitted records that the request has become a receipt. A second call changes nothing: the first time is kept.
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

// heldHeader returns the values of h as bytes. If heldHeader returned text for jsonb, bytes could be lost, because
// jsonb accepts neither NUL nor invalid UTF-8. The signature could then not be verified again.
func heldHeader(h http.Header) map[string][][]byte {
	held := make(map[string][][]byte, len(h))
	for name, values := range h {
		for _, v := range values {
			held[name] = append(held[name], []byte(v))
		}
	}
	return held
}

// holdable returns s in a form that a Postgres text can store. It does not change a query that could be verified again,
// because net/http rejects a request line with control characters.
func holdable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}
