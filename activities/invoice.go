package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Receipts is what activities need of the receipts.
type Receipts interface {
	// Body returns what was received, byte for byte, or receipt.ErrNotFound when it is no longer held.
	Body(ctx context.Context, receiptID string) (receipt.Body, error)
}

// Plans says what is sold: which price means which plan, and what a plan gives.
type Plans struct {
	// Prices maps a price ID, lookup key or product ID to a plan.
	Prices map[string]string
	// Features lists what a plan enables; a plan that is not listed enables nothing.
	Features map[string][]string
	// Onboarding holds the plans whose customers get an onboarding task.
	Onboarding map[string]bool
}

// Invoices reads invoice events.
type Invoices struct {
	Receipts Receipts
	Billing  *billing.Store
	Plans    Plans
	// Effects says how configuration wants effects to be tried, by kind.
	Effects map[string]EffectSettings
}

// EffectSettings says how an effect is to be tried. It stands in histories with the fact, so that a
// replay sees what the run saw.
type EffectSettings struct {
	// Timeout bounds one try; zero is the flow's default.
	Timeout time.Duration `json:",omitempty"`
	// ActivityOnly leaves out the local try.
	ActivityOnly bool `json:",omitempty"`
}

// LoadInvoicePaidInput names the receipt to read.
type LoadInvoicePaidInput struct {
	ReceiptID string
	Provider  string
	EventID   string
	Mode      string
	// Reopen is set when a person has reviewed an ended subscription and lets it be reopened.
	Reopen bool
}

// LoadInvoicePaidResult is the fact, or why a person must look at it first.
type LoadInvoicePaidResult struct {
	Fact billing.InvoicePaid
	// Review, when set, is the reason to park the run; Fact is then incomplete.
	Review string
	// Ended is set when the reason is that the subscription is held as ended: going on then means
	// that a person lets it be reopened.
	Ended bool `json:",omitempty"`
	// Onboarding is set when the plan's customers get an onboarding task.
	Onboarding bool
	// Effects says how to try each kind of effect.
	Effects map[string]EffectSettings `json:",omitempty"`
}

// mostAccount bounds an account's ID, in bytes: it stands in keys.
const mostAccount = 200

// unusable says why an account's ID cannot stand in keys and in the paths of the workspace API; "" where it can.
func unusable(account string) string {
	if account == "." || account == ".." {
		return fmt.Sprintf("%q is a directory in a URL", account)
	}
	return stripe.Unusable(account, mostAccount)
}

// LoadInvoicePaid reads the receipt's payload and says what it means in our words. It changes
// nothing. What a person must decide is a result; an error is only trouble of our own.
func (i *Invoices) LoadInvoicePaid(ctx context.Context, in LoadInvoicePaidInput) (LoadInvoicePaidResult, error) {
	result := LoadInvoicePaidResult{Effects: i.Effects}
	body, err := i.Receipts.Body(ctx, in.ReceiptID)
	if errors.Is(err, receipt.ErrNotFound) {
		result.Review = "body_erased: the receipt's body is no longer held"
		return result, nil
	}
	if err != nil {
		return result, fmt.Errorf("load receipt %s: %w", in.ReceiptID, err)
	}
	paid, err := stripe.ReadPaidInvoice(body.Bytes)
	if err != nil {
		result.Review = "unreadable_payload: " + err.Error()
		return result, nil
	}
	account, err := i.account(ctx, in, paid)
	if err != nil {
		return result, err
	}
	result.Fact = billing.InvoicePaid{
		Provider: in.Provider, ProviderAccount: paid.ProviderAccount, Mode: in.Mode,
		Account: account, Customer: paid.Customer, Invoice: paid.ID, Subscription: paid.Subscription,
		Amount: paid.Amount, Currency: paid.Currency, PeriodStart: paid.PeriodStart, PeriodEnd: paid.PeriodEnd,
		OccurredAt: paid.OccurredAt, EventID: in.EventID, ReceiptID: in.ReceiptID,
	}
	if why := unusable(account); why != "" {
		result.Review = "account_unusable: metadata.account " + why
		return result, nil
	}
	bought, err := paid.Purchase(i.Plans.Prices)
	if err != nil {
		result.Review = err.Error()
		return result, nil
	}
	result.Fact.Plan, result.Fact.PeriodStart, result.Fact.PeriodEnd = bought.Plan, bought.Start, bought.End
	result.Onboarding = i.Plans.Onboarding[result.Fact.Plan]
	if in.Reopen || paid.Subscription == "" {
		return result, nil
	}
	held, found, err := i.Billing.Subscription(ctx, in.Mode, paid.Subscription)
	if err != nil {
		return result, err
	}
	if found && held.Terminal() {
		result.Ended = true
		result.Review = endedReason(paid.Subscription, held.Status, held.FenceAt)
	}
	return result, nil
}

func endedReason(subscription, status string, since time.Time) string {
	return fmt.Sprintf("subscription_ended: %s is held as %s since %s; it is not provisioned again without review",
		subscription, status, since.UTC().Format(time.RFC3339))
}

// account decides whose invoice it is: the subscription's metadata.account, else the account that we
// hold for the customer, else the customer itself.
func (i *Invoices) account(ctx context.Context, in LoadInvoicePaidInput, paid stripe.PaidInvoice) (string, error) {
	if account := paid.Metadata["account"]; account != "" {
		return account, nil
	}
	account, err := i.Billing.AccountOf(ctx, in.Mode, in.Provider, paid.Customer)
	if err != nil || account != "" {
		return account, err
	}
	return paid.Customer, nil
}

// InvoiceEffectInput is what every effect of a paid invoice takes.
type InvoiceEffectInput struct {
	Effect effect.Call
	Fact   billing.InvoicePaid
}
