// Package importer imports existing objects from a provider, for a company that had subscribers before it used pawl.
// Customers, subscriptions and open invoices become facts with the origin import. pawl computes its state from these
// facts as from others, but they cause no effects and publish no events.
package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/imports"
	"github.com/pawlhq/pawl/schema/withheld"
)

// Config configures an import.
type Config struct {
	Pool *pgxpool.Pool
	API  *stripe.Client
	// Source is the source that receives events about the same objects. Mode is the mode of these events, "" for both.
	Source string
	Mode   webhook.Mode
	// Connected lists connected accounts to read in addition to the account that the key belongs to.
	Connected []string
	Policy    fact.Policy
	// EffectsFrom is when the effects of the mode start, if no process has stored a start yet; see [withheld.Begin].
	EffectsFrom string
	// Began, if set, is called before anything is read. If it returns an error, the import ends.
	Began func(ctx context.Context, i imports.Import) error
	// OnPage is called after each page. It gets the name of the list and the number of objects read.
	OnPage func(list string, read int)
}

// Result is the result of an import.
type Result struct {
	Resumed bool `json:"resumed"`
	// Read is the number of objects by list. LeftOut maps the ID of each object that could not be read to the reason.
	Read    map[string]int    `json:"read"`
	LeftOut map[string]string `json:"omitted"`
	// Effects is when the effects of each mode start.
	Effects []withheld.From `json:"effects"`
}

const provider = "stripe"

// Run imports all objects. If an earlier import was interrupted, Run resumes it. After an error, Run can be called
// again.
func Run(ctx context.Context, c Config) (Result, error) {
	modes := []string{"live", "test"}
	if c.Mode != "" {
		modes = []string{string(c.Mode)}
	}
	if err := withheld.Begin(ctx, c.Pool, modes, cmp.Or(c.EffectsFrom, "now"), "the first import"); err != nil {
		return Result{}, err
	}
	effects, err := withheld.All(ctx, c.Pool)
	if err != nil {
		return Result{}, err
	}
	r := run{Config: c, store: imports.New(c.Pool)}
	if r.Import, err = r.store.Begin(ctx, c.Source, provider); err != nil {
		return Result{}, err
	}
	if c.Began != nil {
		if err := c.Began(ctx, r.Import); err != nil {
			return Result{}, err
		}
	}
	result := func() Result {
		return Result{Resumed: r.Resumed, Read: r.Read, LeftOut: r.LeftOut, Effects: effects}
	}
	for _, account := range append([]string{""}, c.Connected...) {
		for _, list := range stripe.Lists {
			if err := r.list(ctx, list, account); err != nil {
				return result(), fmt.Errorf("import %s: %w", list.Name, err)
			}
		}
	}
	return result(), r.store.Finish(ctx, r.Import)
}

// run is the state of one call of Run.
type run struct {
	Config
	imports.Import
	store *imports.Store
}

// list reads the remaining pages of one list of an account.
func (r *run) list(ctx context.Context, list stripe.List, account string) error {
	key := list.Name
	if account != "" {
		key += " of " + account
	}
	for !r.Done[key] {
		page, more, err := r.page(ctx, list, key, account)
		if err != nil {
			return err
		}
		for _, object := range page {
			if err := r.object(ctx, object, account); err != nil {
				return fmt.Errorf("%s: %w", object.ID, err)
			}
		}
		if len(page) > 0 {
			r.Cursor[key] = page[len(page)-1].ID
		}
		r.Read[list.Name] += len(page)
		r.Done[key] = !more
		if err := r.store.Advance(ctx, r.Import); err != nil {
			return err
		}
		r.OnPage(key, r.Read[list.Name])
	}
	return nil
}

// page reads the next page. It retries errors that may be temporary. If the object at the position in the list was
// deleted meanwhile, page starts again at the beginning of the list. An object that is read twice is stored once.
func (r *run) page(ctx context.Context, list stripe.List, key, account string) (page []stripe.Listed, more bool,
	err error) {
	page, more, err = r.API.Page(ctx, list, r.Cursor[key], account)
	if errors.Is(err, stripe.ErrNotFound) && r.Cursor[key] != "" {
		delete(r.Cursor, key)
		page, more, err = r.API.Page(ctx, list, "", account)
	}
	return page, more, err
}

// object applies the facts of an object. If the object cannot be read, object skips it and records the reason.
func (r *run) object(ctx context.Context, o stripe.Listed, account string) error {
	subject := fact.Subject{
		Provider: provider, ProviderAccount: account, Mode: o.Mode,
		EventID: "import:" + r.ID + ":" + o.ID, EventType: "import",
	}
	facts, err := o.ImportedFacts(subject)
	var review *stripe.ReviewError
	switch {
	case errors.As(err, &review):
		r.LeftOut[o.ID] = review.Reason
		return nil
	case err != nil:
		r.LeftOut[o.ID] = err.Error()
		return nil
	}
	return pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		if len(facts) == 0 { // a customer that names no account
			return billing.KeepAddress(ctx, tx, o.Address(subject))
		}
		receipt, err := imports.Receipt(ctx, tx, imports.Object{
			Source: r.Source, Provider: provider, Account: account, Mode: o.Mode, EventID: subject.EventID, ID: o.ID,
			At: o.At, Body: o.Body,
		})
		if err != nil {
			return err
		}
		for i := range facts {
			facts[i].ReceiptID = receipt
		}
		if _, err = billing.Apply(ctx, tx, facts, r.Policy, subject.EventID, time.Now()); err != nil {
			return err
		}
		return billing.KeepAddress(ctx, tx, o.Address(subject))
	})
}
