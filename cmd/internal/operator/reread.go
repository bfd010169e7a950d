package operator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/job"
)

// Reread is what reading kept bodies again would change. The rows are compared at one instant.
type Reread struct {
	At time.Time `json:"at"`
	// Reader is the version of the reader. Undoes is the reading that is undone, "" where bodies were read.
	Reader int    `json:"reader"`
	Undoes string `json:"undoes,omitempty"`
	// Read counts the events whose bodies were read. Gone, Thin and Unreadable name the others: their body is not held
	// any more, carries no object, or cannot be read by the reader. Their facts stay.
	Read       int      `json:"read"`
	Gone       []string `json:"gone"`
	Thin       []string `json:"thin"`
	Unreadable []string `json:"unreadable"`
	// Facts are those that come out differently.
	Facts []RereadFact `json:"facts"`
	Reach

	found billing.Rereading
}

// RereadFact is a fact that comes out differently.
type RereadFact struct {
	EventID string    `json:"event_id"`
	Kind    fact.Kind `json:"kind"`
	Object  string    `json:"object"`
	// ReadBy is the version of the reader that had read it, 0 for none.
	ReadBy int `json:"read_by"`
	// Fields names what differs. New is set where the event had told nothing of the object, Gone where it tells
	// nothing of it any more.
	Fields []string `json:"fields"`
	New    bool     `json:"new,omitempty"`
	Gone   bool     `json:"gone,omitempty"`
}

// Failed reports whether a fact comes out differently.
func (r *Reread) Failed() bool { return len(r.Facts) > 0 }

// ReadAgain reads the kept bodies that pass the filter with today's reader, those of some accounts alone where any is
// named, and folds by the meaning in force what that comes to. It changes nothing.
func ReadAgain(ctx context.Context, pool *pgxpool.Pool, p fact.Policy, accounts []billing.Scope,
	filter billing.KeptFilter, told billing.Progress) (*Reread, error) {
	r := newReread(stripe.ReaderVersion)
	before, undos, err := billing.Readings(ctx, pool)
	if err != nil {
		return nil, err
	}
	r.found.Before = before
	// A person has undone these: only a newer reader asks again.
	keeps := func(f fact.Fact) bool {
		return f.Reader == stripe.ReaderVersion && slices.Contains(undos, f.Reading)
	}
	read := func(k billing.Kept) error { return r.read(k, keeps) }
	for _, of := range accounts {
		if filter.Objects, err = of.Told(ctx, pool); err != nil {
			return nil, err
		}
		filter.Mode = of.Mode
		if err := billing.EachKept(ctx, pool, "stripe", filter, read); err != nil {
			return nil, err
		}
	}
	if len(accounts) == 0 {
		if err := billing.EachKept(ctx, pool, "stripe", filter, read); err != nil {
			return nil, err
		}
	}
	return r, r.foresee(ctx, pool, p, told)
}

// UndoReading returns the changes that take a reading back.
func UndoReading(ctx context.Context, pool *pgxpool.Pool, p fact.Policy, reading string,
	told billing.Progress) (*Reread, error) {
	found, err := billing.Undoing(ctx, pool, reading)
	if errors.Is(err, billing.ErrNoReading) {
		return nil, fmt.Errorf("no reading %q: pawl jobs list shows the job of each", reading)
	}
	if err != nil {
		return nil, err
	}
	r := newReread(found.Reader)
	r.Undoes, r.found = reading, found
	return r, r.foresee(ctx, pool, p, told)
}

func newReread(version int) *Reread {
	return &Reread{At: time.Now(), Reader: version, Gone: []string{}, Thin: []string{}, Unreadable: []string{},
		Facts: []RereadFact{}, Reach: newReach(), found: billing.Rereading{Reader: version}}
}

// read reads one body.
func (r *Reread) read(k billing.Kept, keeps func(fact.Fact) bool) error {
	if k.Body == nil {
		r.Gone = append(r.Gone, k.EventID)
		return nil
	}
	if _, _, thin, _ := stripe.Related(k.Body); thin {
		r.Thin = append(r.Thin, k.EventID)
		return nil
	}
	r.Read++
	facts, err := stripe.Read(k.Body, fact.Subject{
		Provider: "stripe", ProviderAccount: k.Account, Mode: k.Mode, EventID: k.EventID, EventType: k.Type,
		ReceiptID: k.ID,
	})
	hash := sha256.Sum256(k.Body)
	if err != nil || !bytes.Equal(hash[:], k.BodyHash) { // the second is not the body that was received
		r.Unreadable = append(r.Unreadable, k.EventID)
		return nil
	}
	for _, f := range billing.CompareReadings(k.Facts, facts, stripe.ReaderVersion, keeps) {
		known := func(o billing.Reread) bool {
			return o.Is.EventID == f.Is.EventID && o.Is.Kind == f.Is.Kind && o.Is.Object == f.Is.Object
		}
		if !slices.ContainsFunc(r.found.Facts, known) { // two accounts can have the same event
			r.found.Facts = append(r.found.Facts, f)
		}
	}
	return nil
}

// foresee says what the facts come to.
func (r *Reread) foresee(ctx context.Context, pool *pgxpool.Pool, p fact.Policy, told billing.Progress) error {
	for _, f := range r.found.Facts {
		r.Facts = append(r.Facts, RereadFact{
			EventID: f.Is.EventID, Kind: f.Is.Kind, Object: f.Is.Object, ReadBy: f.Was.Reader, Fields: f.Fields(),
			New: f.Was.Data == fact.Data{}, Gone: f.Is.Data == fact.Data{},
		})
	}
	if len(r.Facts) == 0 {
		return nil
	}
	r.found.ID = "preview"
	p, err := billing.InForce(ctx, pool, p)
	if err != nil {
		return err
	}
	return r.Reach.foresee(ctx, pool, func(conn *pgx.Conn) (billing.Forecast, error) {
		return billing.Foresee(ctx, conn, r.found, p, r.At, told)
	})
}

// RereadDecision is the decision to have the facts of a [Reread] count. Rate is how many accounts are folded anew in a
// second, at most.
type RereadDecision struct {
	*Reread
	Rate float64
}

// applyReadingRule appends a reading, and makes the job that folds the accounts anew which it is about, in one commit.
// The request's ID is that of both.
var applyReadingRule = rule[*RereadDecision, *job.Job]{
	find: shown(func(*RereadDecision) string { return "reading" }),
	check: func(_ context.Context, d *Decision, r *RereadDecision) (*change, error) {
		if len(r.Facts) == 0 {
			return nil, d.refuse("changes no fact: there is nothing to do")
		}
		if err := checkJob(d, r.Rate, "account"); err != nil {
			return nil, err
		}
		return &change{
			target: d.Target,
			before: map[string]any{"undoes": r.Undoes},
			after: map[string]any{"reader": r.Reader, "facts": len(r.Facts), "read": r.Read, "gone": len(r.Gone),
				"counts": r.Counts},
			do: func(ctx context.Context, tx pgx.Tx) error { return r.apply(ctx, tx, d) },
		}, nil
	},
	answer: func(ctx context.Context, d *Decision, _ *RereadDecision, _ recorded) (string, *job.Job, error) {
		made, err := d.o.runMade(ctx, d.Request)
		if err != nil {
			return "", nil, err
		}
		return "the facts count; " + made.Says(), made, nil
	},
}

// apply appends the reading, and makes the job, in tx.
func (r *RereadDecision) apply(ctx context.Context, tx pgx.Tx, d *Decision) error {
	r.found.ID = d.Request
	about, err := r.found.AppendIn(ctx, tx, d.Who, d.Why)
	if errors.Is(err, billing.ErrReadAgain) {
		return d.refuse("was compared before bodies were read again: compare once more")
	}
	if err != nil {
		return err
	}
	for _, hit := range r.Accounts {
		about = append(about, hit.Scope)
	}
	return job.MakeIn(ctx, tx, d.makes(job.Job{
		ID: d.Request, Action: job.Reread, Filter: map[string]string{"reader": fmt.Sprint(r.Reader)}, Rate: r.Rate,
	}), accountItems(about))
}

// accountItem is an account as the item of a job.
func accountItem(mode, id string) job.Item {
	return job.Item{Target: targetOf(billing.Scope{Mode: mode, Account: id}), Name: id}
}

// accountItems makes an item of each account.
func accountItems(accounts []billing.Scope) []job.Item {
	items, known := []job.Item{}, map[billing.Scope]bool{}
	for _, of := range accounts {
		if !known[of] {
			items, known[of] = append(items, accountItem(of.Mode, of.Account)), true
		}
	}
	return items
}
