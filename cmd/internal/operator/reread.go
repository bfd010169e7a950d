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
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/job"
)

// Reread lists the changes if stored payloads are parsed again. The rows are compared at one instant.
type Reread struct {
	At time.Time `json:"at"`
	// Reader is the version of the parser. Undoes is the ID of the reading that is undone. It is empty for a new
	// reading.
	Reader int    `json:"reader"`
	Undoes string `json:"undoes,omitempty"`
	// Read counts the events with parsed payloads. Gone, Thin and Unreadable list the other events: the payload was
	// deleted, contains no object, or cannot be parsed. Their facts stay.
	Read       int      `json:"read"`
	Gone       []string `json:"gone"`
	Thin       []string `json:"thin"`
	Unreadable []string `json:"unreadable"`
	// Facts lists the facts that differ.
	Facts []RereadFact `json:"facts"`
	Reach

	found rebuild.Reparse
}

// RereadFact is a fact that differs.
type RereadFact struct {
	EventID string    `json:"event_id"`
	Kind    fact.Kind `json:"kind"`
	Object  string    `json:"object"`
	// ReadBy is the version of the parser that created the stored fact. It is 0 if no fact is stored.
	ReadBy int `json:"read_by"`
	// Fields lists the fields that differ. New is set if only the new parser finds the fact, and Gone if only the old
	// one found it.
	Fields []string `json:"fields"`
	New    bool     `json:"new,omitempty"`
	Gone   bool     `json:"gone,omitempty"`
}

// Failed reports whether a fact differs.
func (r *Reread) Failed() bool { return len(r.Facts) > 0 }

// ReadAgain parses the stored payloads that match the filter with the current parser, and folds the result by the
// meaning in force. If accounts is not empty, it reads only the payloads about these accounts. It changes nothing.
func ReadAgain(ctx context.Context, pool *pgxpool.Pool, p fact.Policy, accounts []billing.Scope,
	filter rebuild.PayloadFilter, told rebuild.Progress) (*Reread, error) {
	r := newReread(stripe.ReaderVersion)
	before, undos, err := rebuild.Reparses(ctx, pool)
	if err != nil {
		return nil, err
	}
	r.found.Before = before
	// A person has undone the results of this parser version. Only a newer version proposes a change again.
	keeps := func(f fact.Fact) bool {
		return f.Reader == stripe.ReaderVersion && slices.Contains(undos, f.Reading)
	}
	read := func(k rebuild.Payload) error { return r.read(k, keeps) }
	for _, of := range accounts {
		if filter.Objects, err = rebuild.Objects(ctx, pool, of); err != nil {
			return nil, err
		}
		filter.Mode = of.Mode
		if err := rebuild.EachPayload(ctx, pool, "stripe", filter, read); err != nil {
			return nil, err
		}
	}
	if len(accounts) == 0 {
		if err := rebuild.EachPayload(ctx, pool, "stripe", filter, read); err != nil {
			return nil, err
		}
	}
	return r, r.foresee(ctx, pool, p, told)
}

// UndoReading returns the changes that undo a reading.
func UndoReading(ctx context.Context, pool *pgxpool.Pool, p fact.Policy, reading string,
	told rebuild.Progress) (*Reread, error) {
	found, err := rebuild.Undo(ctx, pool, reading)
	if errors.Is(err, rebuild.ErrNoReparse) {
		return nil, fmt.Errorf("no reading %q: pawl jobs list shows the job of each", reading)
	}
	if err != nil {
		return nil, err
	}
	r := newReread(found.Parser)
	r.Undoes, r.found = reading, found
	return r, r.foresee(ctx, pool, p, told)
}

func newReread(version int) *Reread {
	return &Reread{At: time.Now(), Reader: version, Gone: []string{}, Thin: []string{}, Unreadable: []string{},
		Facts: []RereadFact{}, Reach: newReach(), found: rebuild.Reparse{Parser: version}}
}

// read parses one payload and adds the facts that differ.
func (r *Reread) read(k rebuild.Payload, keeps func(fact.Fact) bool) error {
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
	if err != nil || !bytes.Equal(hash[:], k.BodyHash) { // a changed hash: not the payload that was received
		r.Unreadable = append(r.Unreadable, k.EventID)
		return nil
	}
	for _, f := range rebuild.CompareFacts(k.Facts, facts, stripe.ReaderVersion, keeps) {
		known := func(o rebuild.FactChange) bool {
			a, b := o.After, f.After
			return a.EventID == b.EventID && a.Kind == b.Kind && a.Object == b.Object
		}
		if !slices.ContainsFunc(r.found.Facts, known) { // two accounts can have the same event
			r.found.Facts = append(r.found.Facts, f)
		}
	}
	return nil
}

// foresee adds the changes to the rows.
func (r *Reread) foresee(ctx context.Context, pool *pgxpool.Pool, p fact.Policy, told rebuild.Progress) error {
	for _, f := range r.found.Facts {
		r.Facts = append(r.Facts, RereadFact{
			EventID: f.After.EventID, Kind: f.After.Kind, Object: f.After.Object, ReadBy: f.Before.Reader,
			Fields: f.Fields(), New: f.Before.Data == fact.Data{}, Gone: f.After.Data == fact.Data{},
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
	return r.Reach.foresee(ctx, pool, func(conn *pgx.Conn) (rebuild.Forecast, error) {
		return rebuild.CheckReparse(ctx, conn, r.found, p, r.At, told)
	})
}

// RereadDecision applies a [Reread]. Rate limits the accounts that are folded per second.
type RereadDecision struct {
	*Reread
	Rate float64
}

// applyReadingRule appends a reading and creates the job that folds the affected accounts, in one transaction. The
// request ID is the ID of both.
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

// apply appends the reading and creates the job in tx.
func (r *RereadDecision) apply(ctx context.Context, tx pgx.Tx, d *Decision) error {
	r.found.ID = d.Request
	about, err := r.found.AppendIn(ctx, tx, d.Who, d.Why)
	if errors.Is(err, rebuild.ErrOutdated) {
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

// accountItem returns the job item of an account.
func accountItem(mode, id string) job.Item {
	return job.Item{Target: targetOf(billing.Scope{Mode: mode, Account: id}), Name: id}
}

// accountItems returns a job item for each account, without duplicates.
func accountItems(accounts []billing.Scope) []job.Item {
	items, known := []job.Item{}, map[billing.Scope]bool{}
	for _, of := range accounts {
		if !known[of] {
			items, known[of] = append(items, accountItem(of.Mode, of.Account)), true
		}
	}
	return items
}
