package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator/cash"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Reconciler compares an account with the current state at the provider. Request and OnCustomer are optional.
type Reconciler struct {
	DB     *pgxpool.Pool
	API    *stripe.Client
	Source string
	Policy fact.Policy
	// Request is the idempotency key. A repeated call with the same key creates receipts with the same event IDs.
	Request string
	// OnPage, if set, is called once per customer with the number of objects to compare.
	OnCustomer func(customer string, objects int)
}

// Difference is a field of an object with different values in pawl's row and at the provider.
type Difference struct {
	Object string `json:"object"`
	// Kind is "subscription", "invoice", "customer", "checkout", "payment", "refund", "dispute", "fraud warning" or
	// "credit note".
	Kind  string `json:"kind"`
	Field string `json:"field"`
	Ours  string `json:"pawl"`
	// Theirs is the value at the provider, which replaces the value in pawl's row.
	Theirs string `json:"provider"`
}

// Reconciliation is the result of a comparison. Applying it adds the receipts of the updates.
type Reconciliation struct {
	Account string `json:"account"`
	Mode    string `json:"mode"`
	// Customers lists the provider's customers that were read. Compared counts their objects.
	Customers   []string     `json:"customers"`
	Compared    int          `json:"compared"`
	Differences []Difference `json:"differences"`
	// Cash lists the currencies in which pawl's entries and Stripe's balance have different sums.
	Cash []cash.Difference `json:"cash"`
	// LeftOut holds the reason why an object was not compared, by object ID. If a whole list was not read, the key
	// names the list and the customer.
	LeftOut map[string]string `json:"omitted"`
	// Filed lists the receipts of the runs that update pawl's rows.
	Filed []source.Receipt `json:"filed"`

	id     string
	source string
	drift  []drifted
}

// Failed reports whether nothing was compared, or whether differences exist and no update was started.
func (r *Reconciliation) Failed() bool {
	return r.Compared == 0 || len(r.Differences)+len(r.Cash) > 0 && len(r.Filed) == 0
}

// drifted is an object that differs, with the event that updates pawl's row.
type drifted struct {
	of    account.Customer
	event receipt.New
}

// Compare reads the customers of an account from the provider and returns the differences from pawl's rows. It
// changes nothing. id is an account ID as in [Show], or the ID of a customer that no event has named yet.
func (r *Reconciler) Compare(ctx context.Context, id, mode string) (*Reconciliation, error) {
	found := &Reconciliation{Mode: mode, Customers: []string{}, Differences: []Difference{}, Filed: []source.Receipt{},
		LeftOut: map[string]string{}, id: cmp.Or(r.Request, uuid.NewString()), source: r.Source}
	customers, open, err := r.whom(ctx, id, found)
	if err != nil {
		return nil, err
	}
	sums := cash.Account{Settle: r.Policy.Settle, LeftOut: found.LeftOut}
	for _, customer := range customers {
		all, err := r.API.OfCustomer(ctx, customer.ID, customer.Account)
		if errors.Is(err, stripe.ErrNotFound) {
			found.LeftOut[customer.ID] = "Stripe returns no such customer for the key of source " + r.Source +
				": check that the key belongs to the same Stripe account and mode"
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the objects of %s at Stripe: %w", customer.ID, err)
		}
		found.Customers = append(found.Customers, customer.ID)
		sums.Add(customer, all)
		if all.Objects, err = r.rest(ctx, all.Objects, open, customer, found); err != nil {
			return nil, err
		}
		if r.OnCustomer != nil {
			r.OnCustomer(customer.ID, len(all.Objects))
		}
		for _, o := range all.Objects {
			if err := r.compare(ctx, o, customer, found); err != nil {
				return nil, fmt.Errorf("compare %s: %w", o.ID, err)
			}
		}
	}
	sums.Name = account.Name{Mode: found.Mode, ID: found.Account}
	found.Cash, err = cash.Compare(ctx, r.DB, sums, time.Now())
	return found, err
}

// whom returns the customers of the account, and the objects that are open in pawl's rows.
func (r *Reconciler) whom(ctx context.Context, id string, found *Reconciliation) (customers []account.Customer,
	open []account.OpenObject, err error) {
	if strings.HasPrefix(id, "cus_") {
		names, err := account.Find(ctx, r.DB, id, found.Mode)
		if err != nil || len(names) == 0 {
			return []account.Customer{{ID: id}}, nil, err
		}
	}
	name, err := find(ctx, r.DB, id, found.Mode)
	if err != nil {
		return nil, nil, err
	}
	found.Account, found.Mode = name.ID, name.Mode
	if customers, err = account.Customers(ctx, r.DB, name, "stripe"); err != nil {
		return nil, nil, err
	}
	if len(customers) == 0 {
		return nil, nil, fmt.Errorf("account %s (%s) has no known customer at Stripe: write the customer's ID, cus_…, instead", found.Account, found.Mode)
	}
	open, err = account.OpenObjects(ctx, r.DB, name)
	return customers, open, err
}

// rest adds the objects that are open in pawl's rows and missing in Stripe's lists.
func (r *Reconciler) rest(ctx context.Context, held []stripe.Listed, open []account.OpenObject, of account.Customer,
	found *Reconciliation) ([]stripe.Listed, error) {
	shown := map[string]bool{}
	for _, o := range held {
		shown[o.ID] = true
	}
	for _, o := range open {
		if shown[o.ID] || o.Customer != of.ID {
			continue
		}
		object, err := r.API.Object(ctx, o.Kind, o.ID, of.Account)
		if o.Kind == "refund" { // a refund has no livemode field
			object.Mode = found.Mode
		}
		switch {
		case errors.Is(err, stripe.ErrNotFound):
			found.LeftOut[o.ID] = "Stripe has no such " + o.Kind + " any more"
		case err != nil:
			return nil, fmt.Errorf("fetch %s from Stripe: %w", o.ID, err)
		default:
			held = append(held, object)
		}
	}
	return held, nil
}

// compare applies the facts of the object in a transaction, adds the resulting changes to found, and rolls the
// transaction back.
func (r *Reconciler) compare(ctx context.Context, o stripe.Listed, of account.Customer, found *Reconciliation) error {
	if found.Mode != "" && o.Mode != found.Mode {
		found.LeftOut[o.ID] = "it has mode " + o.Mode
		return nil
	}
	eventID := "reconcile:" + found.id + ":" + o.ID
	body, err := o.Envelope(eventID)
	if err != nil {
		found.LeftOut[o.ID] = err.Error()
		return nil
	}
	found.Mode = o.Mode
	subject := fact.Subject{
		Provider: "stripe", ProviderAccount: of.Account, Mode: o.Mode,
		EventID: eventID, EventType: o.Type(), ReceiptID: uuid.Nil.String(),
	}
	facts, err := stripe.Read(body, subject)
	if err != nil {
		found.LeftOut[o.ID] = err.Error()
		return nil
	}
	found.Compared++
	differences, err := r.addressDiffers(ctx, o, subject)
	if err != nil {
		return err
	}
	more, err := r.factsDiffer(ctx, o, facts, found)
	if err != nil {
		return err
	}
	if differences = append(differences, more...); len(differences) == 0 {
		return nil
	}
	found.Differences = append(found.Differences, differences...)
	found.drift = append(found.drift, drifted{of, receipt.New{
		Account: of.Account, Mode: o.Mode, EventID: eventID, Identity: receipt.ByID, Type: o.Type(), Object: o.ID,
		// The event has no time, so a repeated request creates an identical event.
		Status: receipt.Received, Body: body,
	}})
	return nil
}

// addressDiffers compares name, e-mail address, language and time zone of the customer, and does not return the values.
// It reports no difference for a forgotten customer. It also reports none if the customer has no e-mail address at
// Stripe, because the stored address may come from a checkout session.
func (r *Reconciler) addressDiffers(ctx context.Context, o stripe.Listed, s fact.Subject) ([]Difference, error) {
	theirs := o.Address(s)
	if !theirs.Whole || theirs.Email == "" {
		return nil, nil
	}
	ours, err := billing.New(r.DB).Address(ctx, theirs.Subject, "")
	if err != nil || !ours.Forgotten.IsZero() || ours.Email == theirs.Email && ours.Name == theirs.Name &&
		ours.Locale == theirs.Locale && ours.Zone == theirs.Zone {
		return nil, err
	}
	held := map[bool]string{true: "none", false: "another"}[ours.Email == ""]
	return []Difference{{Object: o.ID, Kind: "customer", Field: "address", Ours: held, Theirs: "as Stripe has it"}}, nil
}

// factsDiffer returns the changes that the facts would make to the object. It applies the facts in a transaction that
// it rolls back.
func (r *Reconciler) factsDiffer(ctx context.Context, o stripe.Listed, facts []fact.Fact,
	found *Reconciliation) ([]Difference, error) {
	if len(facts) == 0 {
		return nil, nil // a customer that names no account
	}
	var change fold.Change
	err := decide.RollBack(ctx, r.DB, func(ctx context.Context, tx pgx.Tx) (err error) {
		change, err = billing.Apply(ctx, tx, facts, r.Policy, "reconcile", time.Time{})
		return err
	})
	if err != nil {
		return nil, err
	}
	if change.Silent && change.Before.Subscription == nil && change.Before.Invoice == nil &&
		change.Before.Checkout == nil {
		return nil, nil // the object ended before effects began, and no row exists
	}
	known, err := billing.New(r.DB).About(ctx, facts[0].Subject, o.ID)
	if err != nil {
		return nil, err
	}
	if s := facts[0].Subscription; fact.Behind(facts[0], known) && (s == nil || !s.Over()) {
		found.LeftOut[o.ID] = "Stripe returned an older state than the stored one: repeat the command"
		return nil, nil
	}
	found.Account = cmp.Or(found.Account, change.After.Access.Account)
	return differencesOf(o.ID, facts[0].Kind, change), nil
}
