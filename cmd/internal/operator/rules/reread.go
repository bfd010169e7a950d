package rules

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
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/job"
)

// Reread lists the changes that parsing the stored payloads again would cause. The rows are compared at one instant.
type Reread struct {
	At time.Time `json:"compared_at"`
	// Reader is the version of the parser.
	Reader int `json:"reader"`
	// Read counts the events with parsed payloads. Gone, Thin and Unreadable list the other events: their payload was
	// deleted, contains no object, or cannot be parsed. Their facts do not change.
	Read       int      `json:"read"`
	Gone       []string `json:"missing"`
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
	Gone   bool     `json:"missing,omitempty"`
}

// Failed reports whether a fact differs.
func (r *Reread) Failed() bool { return len(r.Facts) > 0 }

// ReadAgain parses the stored payloads that match the filter with the current parser, and computes the objects of the
// result by the active rules. If accounts is not empty, it reads only the payloads about these accounts. It changes
// nothing.
func ReadAgain(ctx context.Context, pool *pgxpool.Pool, p fact.Policy, accounts []billing.Scope,
	filter rebuild.PayloadFilter, told rebuild.Progress) (*Reread, error) {
	r := newReread(stripe.ReaderVersion)
	var err error
	if r.found.Before, err = rebuild.Reparses(ctx, pool); err != nil {
		return nil, err
	}
	for _, of := range accounts {
		if filter.Objects, err = rebuild.Objects(ctx, pool, of); err != nil {
			return nil, err
		}
		filter.Mode = of.Mode
		if err := rebuild.EachPayload(ctx, pool, "stripe", filter, r.read); err != nil {
			return nil, err
		}
	}
	if len(accounts) == 0 {
		if err := rebuild.EachPayload(ctx, pool, "stripe", filter, r.read); err != nil {
			return nil, err
		}
	}
	return r, r.foresee(ctx, pool, p, told)
}

func newReread(version int) *Reread {
	return &Reread{At: time.Now(), Reader: version, Gone: []string{}, Thin: []string{}, Unreadable: []string{},
		Facts: []RereadFact{}, Reach: newReach(), found: rebuild.Reparse{Parser: version}}
}

// Read parses one payload and adds the facts that differ.
func (r *Reread) read(k rebuild.Payload) error {
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
	// the hash differs, so this is not the payload that pawl received
	if err != nil || !bytes.Equal(hash[:], k.BodyHash) {
		r.Unreadable = append(r.Unreadable, k.EventID)
		return nil
	}
	for _, f := range rebuild.CompareFacts(k.Facts, facts, stripe.ReaderVersion) {
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

// foresee adds the resulting changes to the rows.
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
	p, err := billing.ActiveRules(ctx, pool, p)
	if err != nil {
		return err
	}
	return r.Reach.foresee(ctx, pool, rebuild.Request{Rules: p, Reparse: &r.found, At: r.At}, told)
}

// RereadDecision applies a [Reread]. Rate is the maximum number of accounts that are recomputed per second.
type RereadDecision struct {
	*Reread
	Rate float64
}

// ApplyReading activates the facts of another parser version. Its Found is a [*RereadDecision].
var ApplyReading = decide.Verb{
	Name: "apply-reading", Target: "READING", Needs: role.RightAdmin, Rule: applyReadingRule,
	Short: "Activate the facts of another parser version",
}

// applyReadingRule appends the newly parsed facts and creates the job that recomputes the affected accounts, in one
// transaction. The request ID is also the ID of the parsed facts and of the job.
var applyReadingRule = decide.Rule[*RereadDecision, *job.Job]{
	Find: decide.Shown(func(*RereadDecision) string { return "reading" }),
	Check: func(_ context.Context, d *decide.Decision, r *RereadDecision) (*decide.Change, error) {
		if len(r.Facts) == 0 {
			return nil, d.Refuse("changes no fact: there is nothing to do")
		}
		if err := jobs.Check(d, r.Rate, "account"); err != nil {
			return nil, err
		}
		return &decide.Change{
			Target: d.Target,
			After: map[string]any{"reader": r.Reader, "facts": len(r.Facts), "read": r.Read, "missing": len(r.Gone),
				"counts": r.Counts},
			Do: func(ctx context.Context, tx pgx.Tx) error { return r.apply(ctx, tx, d) },
		}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, _ *RereadDecision, _ decide.Recorded) (string, *job.Job, error) {
		made, err := jobs.RunNew(ctx, d.Operator, d.Request)
		if err != nil {
			return "", nil, err
		}
		return "the new facts are active; " + made.Message(), made, nil
	},
}

// apply appends the parsed facts and creates the job in tx.
func (r *RereadDecision) apply(ctx context.Context, tx pgx.Tx, d *decide.Decision) error {
	r.found.ID = d.Request
	about, err := r.found.AppendIn(ctx, tx, d.Actor, d.Reason)
	if errors.Is(err, rebuild.ErrOutdated) {
		return d.Refuse("was compared before payloads were parsed again: compare it again")
	}
	if err != nil {
		return err
	}
	return r.makeJob(ctx, tx, d, billing.CauseParser, map[string]string{"reader": fmt.Sprint(r.Reader)}, r.Rate, about)
}
