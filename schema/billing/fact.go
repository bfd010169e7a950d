package billing

import "time"

// Kind says what a fact tells, and so which of the pointers in its [Data] is set.
type Kind string

// The kinds of facts. Most are snapshots: an event carries the whole object as it was when the event was made.
const (
	SubscriptionSeen Kind = "subscription_seen"
	InvoiceSeen      Kind = "invoice_seen"
	PaymentSeen      Kind = "payment_seen"
	CheckoutSeen     Kind = "checkout_seen"
	RefundSeen       Kind = "refund_seen"
	DisputeSeen      Kind = "dispute_seen"
	CreditSeen       Kind = "credit_seen"
	WarningSeen      Kind = "warning_seen"
	// Linked says to which account of ours a customer or a subscription belongs.
	Linked Kind = "linked"
	// Withheld says that what a subscription or a one-off invoice grants is taken back, Reopened that it is given
	// again.
	Withheld Kind = "withheld"
	Reopened Kind = "reopened"
	// Held says that the access of a subscription, or of a whole account, is held back, by a person or a dispute;
	// Released ends that.
	Held     Kind = "held"
	Released Kind = "released"
)

// Rank orders the facts of one object that occurred in one second.
type Rank int

// The ranks, in their order.
const (
	RankFetched Rank = iota // what the provider answered when it was asked
	RankCreated
	RankNotice // tells of something to come and changes nothing (trial_will_end)
	RankChange
	RankEnd
)

// Origin says where a fact comes from.
type Origin string

// The origins of facts.
const (
	FromEvent    Origin = "event"
	FromFetch    Origin = "fetched"
	FromImport   Origin = "import"
	FromOperator Origin = "operator"
	FromReread   Origin = "reread"
)

// Subject is the header of a fact: whose it is, and where it comes from.
type Subject struct {
	Provider string
	// ProviderAccount is the connected account that the event came from, "" for the provider's own.
	ProviderAccount string `json:",omitempty"`
	// Mode is "live" or "test".
	Mode string
	// Customer is the provider's customer, "" where the object names none.
	Customer string `json:",omitempty"`
	EventID  string
	// EventType is the provider's name for what happened, e.g. "invoice.paid".
	EventType string
	ReceiptID string
	// OccurredAt is the provider's time of the event; it has a resolution of one second.
	OccurredAt time.Time
}

// Scope is the part of an effect's key that keeps providers, modes and connected accounts apart: "stripe:live", or
// "stripe:live:acct_9".
func (s Subject) Scope() string {
	scope := s.Provider + ":" + s.Mode
	if s.ProviderAccount != "" {
		scope += ":" + s.ProviderAccount
	}
	return scope
}

// Fact is what one event says about one object: prices, amounts and names as they stand there. The folds turn them
// into plans and accounts. It travels through workflow histories and outlives the event's body: it holds no personal
// data.
type Fact struct {
	Subject
	Kind Kind
	// Object is the provider's ID of the subscription, invoice, … that the fact is about.
	Object string
	Rank   Rank
	Origin Origin
	// Reader is the version of the reader that has read it, 0 where nothing was read. Reading is the ID of the
	// [Rereading] that it is of, "" for the first one.
	Reader  int    `json:",omitempty"`
	Reading string `json:",omitempty"`
	Data
}

// Data is what a fact tells. Exactly the pointer that the fact's kind names is set.
type Data struct {
	Subscription *SubscriptionFact `json:",omitempty"`
	Invoice      *InvoiceFact      `json:",omitempty"`
	Payment      *PaymentFact      `json:",omitempty"`
	Checkout     *CheckoutFact     `json:",omitempty"`
	Refund       *RefundFact       `json:",omitempty"`
	Dispute      *DisputeFact      `json:",omitempty"`
	Credit       *CreditFact       `json:",omitempty"`
	Warning      *WarningFact      `json:",omitempty"`
	Link         *LinkFact         `json:",omitempty"`
	// Decision is of the kinds Withheld, Reopened, Held and Released.
	Decision *DecisionFact `json:",omitempty"`
}

// SubscriptionFact is a subscription as an event shows it.
type SubscriptionFact struct {
	// Status is the provider's: incomplete, incomplete_expired, trialing, active, past_due, unpaid, paused, canceled.
	Status string
	Items  []Item `json:",omitempty"`
	// Start and the other times are zero where the subscription has none.
	Start    time.Time `json:",omitzero"`
	TrialEnd time.Time `json:",omitzero"`
	// MissingPayment is what the provider does at the end of a trial that has no payment method: cancel or pause, ""
	// where the subscription goes on. PaymentMethod is set where it, or its customer as far as the object carries that,
	// has one.
	MissingPayment    string    `json:",omitempty"`
	PaymentMethod     bool      `json:",omitempty"`
	CancelAt          time.Time `json:",omitzero"`
	CancelAtPeriodEnd bool      `json:",omitempty"`
	CanceledAt        time.Time `json:",omitzero"`
	EndedAt           time.Time `json:",omitzero"`
	// CollectionPaused is set while payments are not collected; access is not concerned.
	CollectionPaused bool `json:",omitempty"`
	// CollectionMethod is charge_automatically or send_invoice.
	CollectionMethod string `json:",omitempty"`
	// Account and Plan are the subscription's metadata.account and metadata.plan, "" without one. A connected
	// account's are left out: they could name any.
	Account string `json:",omitempty"`
	Plan    string `json:",omitempty"`
	// Before is the same subscription before the change, if the event tells: the snapshot with previous_attributes
	// laid over it.
	Before *SubscriptionFact `json:",omitempty"`
}

// Item is one price of a subscription.
type Item struct {
	ID    string `json:",omitempty"`
	Price string
	// LookupKey is the price's; a connected account's is left out, since it could name any.
	LookupKey string `json:",omitempty"`
	Product   string `json:",omitempty"`
	Quantity  int64  `json:",omitempty"`
	// None is set where the quantity is said to be 0: nothing is bought of the price. Metered items say no quantity.
	None bool `json:",omitempty"`
	// Metered items are billed by use: they add no seats.
	Metered bool `json:",omitempty"`
	// PeriodStart and PeriodEnd bound the current period.
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
}

// Currency is that of the fact's amounts, "" where it has none.
func (f Fact) Currency() string {
	switch {
	case f.Invoice != nil:
		return f.Invoice.Currency
	case f.Payment != nil:
		return f.Payment.Currency
	case f.Checkout != nil:
		return f.Checkout.Currency
	case f.Refund != nil:
		return f.Refund.Currency
	case f.Dispute != nil:
		return f.Dispute.Currency
	case f.Credit != nil:
		return f.Credit.Currency
	}
	return ""
}

// InvoiceFact is an invoice as an event shows it. Amounts are in minor units of Currency.
type InvoiceFact struct {
	// Status is draft, open, paid, uncollectible, void, or deleted for a draft that is gone.
	Status    string
	Due       int64
	Paid      int64
	Remaining int64
	// Tax is the part of Due that is tax.
	Tax int64
	// Currency is the ISO 4217 code in lower case.
	Currency string
	// Reason is the provider's billing_reason: subscription_create, subscription_cycle, manual, …
	Reason   string `json:",omitempty"`
	Attempts int    `json:",omitempty"`
	// Failed is set where the event says that a payment was tried in vain, or that it waits for the customer, or that
	// the due date has passed.
	Failed      bool      `json:",omitempty"`
	NextAttempt time.Time `json:",omitzero"`
	DueAt       time.Time `json:",omitzero"`
	// Stuck says why the provider could not finalize the draft: the code of its last attempt. "" for no such attempt.
	Stuck string `json:",omitempty"`
	// Number is what the customer quotes: it stands on the invoice, which has none while it is a draft.
	Number string `json:",omitempty"`
	// How is [PaidByCharge] or [PaidOutOfBand]; "" where the event does not tell.
	How string `json:",omitempty"`
	// Balance is what the customer's balance has paid of it, beside Due; negative for what the balance has added.
	Balance int64 `json:",omitempty"`
	// Subscription is "" for an invoice outside of any subscription.
	Subscription string `json:",omitempty"`
	// Account is the subscription's metadata.account as the invoice carries it, else the invoice's own; "" without
	// one. Plan is the subscription's metadata.plan. A connected account's are left out.
	Account string `json:",omitempty"`
	Plan    string `json:",omitempty"`
	Lines   []Line `json:",omitempty"`
	// Partial is set where the event carries only the first of the invoice's lines.
	Partial bool `json:",omitempty"`
}

// How what is paid of an invoice went: through the provider, or outside of it.
const (
	PaidByCharge  = "charge"
	PaidOutOfBand = "out_of_band"
)

// Line is one line of an invoice.
type Line struct {
	Subscription string `json:",omitempty"`
	Price        string `json:",omitempty"`
	// LookupKey and Product are as an [Item]'s.
	LookupKey string `json:",omitempty"`
	Product   string `json:",omitempty"`
	Quantity  int64  `json:",omitempty"`
	// None is set where the quantity is said to be 0. A line may say none, and its Quantity is 0 as well.
	None        bool `json:",omitempty"`
	Amount      int64
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
	Proration   bool      `json:",omitempty"`
	Metered     bool      `json:",omitempty"`
	// Credit is set for a line that takes back what another one charged.
	Credit bool `json:",omitempty"`
}

// PaymentFact is a charge or a payment intent as an event shows it, or what ties it to an invoice. The fact is about
// the payment intent, or about the charge where it has none: the charges of one payment intent are one payment.
type PaymentFact struct {
	Status   string
	Invoice  string `json:",omitempty"`
	Charge   string `json:",omitempty"`
	Amount   int64
	Currency string
	// Refunded is what the provider says is refunded of the charge so far; it is cumulative. Only a charge says so;
	// it is nil for anything else.
	Refunded *int64 `json:",omitempty"`
	// OutOfBand is set for what the provider was only told of, NoInvoice for what is told to pay no invoice.
	OutOfBand bool `json:",omitempty"`
	NoInvoice bool `json:",omitempty"`
	// ToldAlone is set where no event of its own tells of a refund: the charge alone does.
	ToldAlone bool `json:",omitempty"`
}

// CheckoutFact is a checkout session as an event shows it.
type CheckoutFact struct {
	// Mode is payment, setup or subscription; Status open, complete or expired; PaymentStatus unpaid, paid or
	// no_payment_required.
	Mode, Status, PaymentStatus string
	Subscription                string `json:",omitempty"`
	Invoice                     string `json:",omitempty"`
	PaymentIntent               string `json:",omitempty"`
	// Account is client_reference_id, else metadata.account.
	Account  string `json:",omitempty"`
	Amount   int64
	Currency string
	Tax      int64 `json:",omitempty"`
	// Lines list the purchase where they are known: an event does not carry them. Price is metadata.price, which can
	// name it instead.
	Lines []Line `json:",omitempty"`
	Price string `json:",omitempty"`
}

// RefundFact is a refund as an event shows it.
type RefundFact struct {
	// Status is pending, requires_action, succeeded, failed or canceled.
	Status        string
	Charge        string `json:",omitempty"`
	PaymentIntent string `json:",omitempty"`
	Amount        int64
	Currency      string
	// CreatedAt is when it was made, zero where that is not told.
	CreatedAt time.Time `json:",omitzero"`
	// Returned is set for one that failed once its money had gone out.
	Returned bool `json:",omitempty"`
	// ByCharge is set for what a charge alone has told: the part of its refunds that was not known by then. Known lists
	// those that were.
	ByCharge bool     `json:",omitempty"`
	Known    []string `json:",omitempty"`
}

// DisputeFact is a dispute as an event shows it.
type DisputeFact struct {
	Status        string
	Charge        string
	PaymentIntent string `json:",omitempty"`
	Reason        string `json:",omitempty"`
	Amount        int64
	Currency      string
	EvidenceDue   time.Time `json:",omitzero"`
	// Movements are the money that moved because of it, whatever its status.
	Movements []Movement `json:",omitempty"`
}

// Movement is one balance transaction of a dispute: a negative amount was withdrawn, a positive one reinstated.
type Movement struct {
	ID       string
	Amount   int64
	Currency string
	// Fee is what the provider keeps for it beside Amount, negative for what it gives back.
	Fee int64 `json:",omitempty"`
	// OccurredAt is when it was made. If it does not say so, the fold sets the time of the first event that told of
	// it.
	OccurredAt time.Time `json:",omitzero"`
}

// CreditFact is a credit note as an event shows it.
type CreditFact struct {
	// Status is issued or void.
	Status  string
	Invoice string
	// Amount is the credited part of money that had been received, without the part that its refunds pay back. Tax is
	// the part of it that is tax.
	Amount   int64
	Tax      int64 `json:",omitempty"`
	Currency string
	// OutOfBand is the part of Amount that was given back outside of the provider; the rest is on the customer's
	// balance.
	OutOfBand int64  `json:",omitempty"`
	Reason    string `json:",omitempty"`
}

// WarningFact is an early fraud warning as an event shows it.
type WarningFact struct {
	Charge        string
	PaymentIntent string `json:",omitempty"`
	// Type is what the card's issuer says of it.
	Type string `json:",omitempty"`
	// Actionable is set while a refund may still keep a dispute away.
	Actionable bool
}

// LinkFact links a customer, a subscription or money, the fact's object, to an account of ours.
type LinkFact struct {
	Account string
	// Checkout is set for the link that a checkout session makes. It is the weakest: the first one counts, and only
	// while nothing else links the object.
	Checkout bool `json:",omitempty"`
	// Of is the kind of an object of money that a person gives to the account, Payment the payment that it is of; ""
	// for a customer and a subscription.
	Of      string `json:",omitempty"`
	Payment string `json:",omitempty"`
}

// DecisionFact is what a person or a refusing outside system decided.
type DecisionFact struct {
	By  string
	Why string
	// Prices are those that are withheld; see [Withheld].
	Prices []Bought `json:",omitempty"`
	// Invoice, or Checkout, is the one whose provisioning was refused, "" for none.
	Invoice  string `json:",omitempty"`
	Checkout string `json:",omitempty"`
	// Account is ours that is held, or released, as a whole: it is the fact's object. "" where a subscription is meant.
	Account string `json:",omitempty"`
}

const factColumns = `provider, provider_account, mode, kind, object, customer, event_id, event_type, receipt_id::text, occurred_at, rank, origin, reader, reading, data`

// appendFactSQL leaves an existing fact as it is: a fact is never changed.
const appendFactSQL = `
insert into facts (provider, provider_account, mode, kind, object, customer, event_id, event_type, receipt_id, occurred_at, rank, origin, reader, reading, data)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9::uuid, $10, $11, $12, $13, $14, $15)
    on conflict (object, event_id, kind, mode, provider, provider_account, reading) do nothing`

const factsSQL = `
select ` + factColumns + ` from current_facts
 where object = any($1) and mode = $2 and provider = $3 and provider_account = $4`

const factsOfReceiptSQL = `select ` + factColumns + ` from current_facts where receipt_id = $1::uuid and origin in ('event', 'reread') and kind <> 'withheld' order by id`
