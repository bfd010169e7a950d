// Package importer reads what a provider holds already, for a company that had subscribers before it had pawl:
// customers, subscriptions and open invoices become facts of origin import. They fold like any others, and nothing
// follows from them: no effect, no news.
package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/imports"
)

// Config is what an import needs.
type Config struct {
	Pool *pgxpool.Pool
	API  *stripe.Client
	// Source is the source whose events are about the same objects. Mode is that of its events, "" for both.
	Source string
	Mode   webhook.Mode
	// Connected are the connected accounts that are read beside the key's own.
	Connected []string
	Policy    billing.Policy
	// Began, where it is set, is told of the import before anything is read; its error ends it.
	Began func(ctx context.Context, i imports.Import) error
	// Told is told after each page.
	Told func(list string, read int)
}

// Result is what an import came to.
type Result struct {
	Resumed bool `json:"resumed"`
	// Read counts the objects by list, LeftOut says of those that could not be read why not, by ID.
	Read    map[string]int    `json:"read"`
	LeftOut map[string]string `json:"left_out"`
	// EffectsFrom is when effects began, by mode: nothing follows from what occurred before.
	EffectsFrom map[string]time.Time `json:"effects_from"`
}

const provider = "stripe"

// Run reads everything. If an earlier call was broken off, it goes on from there. After an error it can be run again.
func Run(ctx context.Context, c Config) (Result, error) {
	modes := []string{"live", "test"}
	if c.Mode != "" {
		modes = []string{string(c.Mode)}
	}
	r := run{Config: c, store: imports.New(c.Pool)}
	var err error
	if r.Import, err = r.store.Begin(ctx, c.Source, provider, modes); err != nil {
		return Result{}, err
	}
	if c.Began != nil {
		if err := c.Began(ctx, r.Import); err != nil {
			return Result{}, err
		}
	}
	result := func() Result {
		return Result{Resumed: r.Resumed, Read: r.Read, LeftOut: r.LeftOut, EffectsFrom: r.EffectsFrom}
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

// run is one call of Run.
type run struct {
	Config
	imports.Import
	store *imports.Store
}

// list reads the pages of one list of an account that have not been read yet.
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
		r.Told(key, r.Read[list.Name])
	}
	return nil
}

// page asks for the next page, again and again while that can help. If the object at the list's place was deleted
// meanwhile, the list is read from its beginning: an object that is read twice is kept once.
func (r *run) page(ctx context.Context, list stripe.List, key, account string) (page []stripe.Listed, more bool,
	err error) {
	page, more, err = r.API.Page(ctx, list, r.Cursor[key], account)
	if errors.Is(err, stripe.ErrNotFound) && r.Cursor[key] != "" {
		delete(r.Cursor, key)
		page, more, err = r.API.Page(ctx, list, "", account)
	}
	return page, more, err
}

// object applies the facts that an object tells. One that cannot be read is left out, and said.
func (r *run) object(ctx context.Context, o stripe.Listed, account string) error {
	subject := billing.Subject{
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
		if len(facts) == 0 { // a customer that names no account of ours
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
