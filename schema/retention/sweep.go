package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/schema"
)

// Run is the result of one run.
type Run struct {
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// Deleted counts the deleted rows by kind.
	Deleted map[string]int64 `json:"deleted"`
	// PausedSeconds is how long the run waited because deliveries were answered slowly.
	PausedSeconds float64 `json:"paused_seconds"`
	// Complete is set if the run deleted every row that had expired. Otherwise the next run continues.
	Complete bool `json:"complete"`
}

// Sweep deletes expired rows.
type Sweep struct {
	DB   schema.Querier
	Ages Ages
	// Within ends the run, measured from its start. The next run continues.
	Within time.Duration
	// Look is how often the run measures whether deliveries are answered slowly. Counts of the ingress processes are a
	// few seconds old.
	Look time.Duration
	// Progress, when set, receives the run after each batch and during each pause.
	Progress func(Run)

	// rows replaces rowsPerBatch in tests.
	rows int
}

// Run deletes expired rows, kind by kind, until none is left or its time is over. It continues r, which is the
// zero value or the last progress of a run that was interrupted. It rests between two batches for as long as the last
// one took. If a statement fails, Run continues with the other kinds and then returns the error.
func (s *Sweep) Run(ctx context.Context, r Run) (Run, error) {
	if r.StartedAt.IsZero() {
		r.StartedAt = time.Now().UTC()
	}
	if r.Deleted == nil {
		r.Deleted = map[string]int64{}
	}
	if s.rows == 0 {
		s.rows = rowsPerBatch
	}
	ingress := &pressure{db: s.DB, every: s.Look}
	if _, err := ingress.look(ctx); err != nil { // the first measurement ends with the second look
		return r, err
	}
	if err := s.wait(ctx, &r, s.Look); err != nil {
		return r, err
	}
	var failed error
	for _, k := range kinds {
		if k.age(s.Ages) == 0 {
			continue
		}
		over, err := s.kind(ctx, &r, ingress, k)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if failed = cmp.Or(failed, err); over {
			r.EndedAt = time.Now().UTC()
			return r, failed
		}
	}
	r.Complete, r.EndedAt = failed == nil, time.Now().UTC()
	return r, failed
}

// kind deletes the expired rows of one kind. over is true if the time of the run is over. A statement that exceeds its
// timeout is repeated with half as many rows. Any other error ends only this kind.
func (s *Sweep) kind(ctx context.Context, r *Run, ingress *pressure, k kind) (over bool, err error) {
	rows := s.rows
	for after := k.first; ; {
		if err := s.yield(ctx, r, ingress); err != nil || s.over(r) {
			return true, err
		}
		began := time.Now()
		b, err := k.delete(ctx, s.DB, k.age(s.Ages), after, rows)
		// 57014 is query_canceled, the error of a statement timeout.
		if failure, ok := errors.AsType[*pgconn.PgError](err); ok && failure.Code == "57014" && rows > 1 {
			rows /= 2
			continue
		}
		if err != nil {
			return false, err
		}
		r.Deleted[k.name] += b.Deleted
		if !b.More || b.Last == nil {
			return false, nil
		}
		after = *b.Last
		if err := s.wait(ctx, r, time.Since(began)); err != nil {
			return true, err
		}
	}
}

// yield waits while deliveries are answered slowly, at most until the time of the run is over.
func (s *Sweep) yield(ctx context.Context, r *Run, ingress *pressure) error {
	for {
		slow, err := ingress.look(ctx)
		if err != nil || !slow || s.over(r) {
			return err
		}
		began := time.Now()
		err = s.wait(ctx, r, s.Look)
		if r.PausedSeconds += time.Since(began).Seconds(); err != nil {
			return err
		}
	}
}

func (s *Sweep) over(r *Run) bool { return time.Since(r.StartedAt) >= s.Within }

// wait reports the progress and waits.
func (s *Sweep) wait(ctx context.Context, r *Run, d time.Duration) error {
	if s.Progress != nil {
		s.Progress(*r)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Counts lists the numbers of deleted rows, such as "12 payloads, 3 runs".
func (r Run) Counts() string {
	var counts []string
	for _, k := range kinds {
		if n := r.Deleted[k.name]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(k.name, "_", " ")))
		}
	}
	if len(counts) == 0 {
		return "nothing"
	}
	return strings.Join(counts, ", ")
}

// Notes describes pauses and an early end. It is empty for a run without them.
func (r Run) Notes() string {
	var notes []string
	if r.PausedSeconds > 0 {
		notes = append(notes, fmt.Sprintf("waited %s because deliveries were answered slowly",
			(time.Duration(r.PausedSeconds)*time.Second).String()))
	}
	if !r.Complete {
		notes = append(notes, "the next run deletes the rest")
	}
	return strings.Join(notes, "; ")
}
