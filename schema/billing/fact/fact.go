package fact

import "time"

// Kind is the kind of a fact. It determines which pointer in [Data] is set.
type Kind string

// The kinds of facts. Most kinds are snapshots: the fact contains the whole object as it was at the time of the event.
const (
	SubscriptionSeen Kind = "subscription_seen"
	InvoiceSeen      Kind = "invoice_seen"
	PaymentSeen      Kind = "payment_seen"
	CheckoutSeen     Kind = "checkout_seen"
	RefundSeen       Kind = "refund_seen"
	DisputeSeen      Kind = "dispute_seen"
	CreditSeen       Kind = "credit_seen"
	WarningSeen      Kind = "warning_seen"
	// Linked links a customer, a subscription or money to an account.
	Linked Kind = "linked"
	// Withheld ends the grant of a subscription or a one-off purchase. Reopened starts the grant again.
	Withheld Kind = "withheld"
	Reopened Kind = "reopened"
	// Held puts a subscription or a whole account on hold, by a person or a dispute. Released ends the hold.
	Held     Kind = "held"
	Released Kind = "released"
)

// Rank orders the facts of one object that occurred in one second.
type Rank int

// The ranks of facts, lowest first. Within one second, a fact with a lower rank is applied first.
const (
	RankFetched Rank = iota // the object was fetched from the API
	RankCreated
	RankNotice // the event announces something and changes nothing (trial_will_end)
	RankChange
	RankEnd
)

// Origin is the source that a fact was read from.
type Origin string

// The origins of facts.
const (
	FromEvent    Origin = "event"
	FromFetch    Origin = "fetched"
	FromImport   Origin = "import"
	FromOperator Origin = "operator"
	FromReread   Origin = "reread"
)

// Reconciled is the event type of a fact about an object that was fetched to compare it with pawl's state.
const Reconciled = "reconcile"

// Subject is the header of a fact: the customer and the event that the fact belongs to.
type Subject struct {
	Provider string
	// ProviderAccount is the connected account of the event. It is empty for the platform account.
	ProviderAccount string `json:",omitempty"`
	// Mode is "live" or "test".
	Mode string
	// Customer is the provider's customer ID. It is empty if the object has no customer.
	Customer string `json:",omitempty"`
	EventID  string
	// EventType is the provider's event type, for example "invoice.paid".
	EventType string
	ReceiptID string
	// OccurredAt is the provider's time of the event, with a resolution of one second.
	OccurredAt time.Time
}

// Scope returns the part of an effect key that separates providers, modes and connected accounts: "stripe:live" or
// "stripe:live:acct_9".
func (s Subject) Scope() string {
	scope := s.Provider + ":" + s.Mode
	if s.ProviderAccount != "" {
		scope += ":" + s.ProviderAccount
	}
	return scope
}

// Fact is what one event reports about one object, with prices, amounts and names as sent. Plans and accounts are not
// part of a fact: package fold derives them. A fact is stored in workflow histories and kept when the payload is
// erased, so it contains no personal data.
type Fact struct {
	Subject
	Kind Kind
	// Object is the provider's ID of the subscription, invoice, … that the fact is about.
	Object string
	Rank   Rank
	Origin Origin
	// Reader is the version of the parser, or 0 if no payload was parsed. Reading is the ID of the parse. It is empty
	// for the first parse of a payload, and set if the payload was parsed again.
	Reader  int    `json:",omitempty"`
	Reading string `json:",omitempty"`
	Data
}

// Data is the content of a fact. Exactly one pointer is set, as determined by the kind of the fact.
type Data struct {
	Subscription *Subscription `json:",omitempty"`
	Invoice      *Invoice      `json:",omitempty"`
	Payment      *Payment      `json:",omitempty"`
	Checkout     *Checkout     `json:",omitempty"`
	Refund       *Refund       `json:",omitempty"`
	Dispute      *Dispute      `json:",omitempty"`
	Credit       *Credit       `json:",omitempty"`
	Warning      *Warning      `json:",omitempty"`
	Link         *Link         `json:",omitempty"`
	// Decision is set for the kinds Withheld, Reopened, Held and Released.
	Decision *Decision `json:",omitempty"`
}

// Subscription is a snapshot of a subscription.
type Subscription struct {
	// Status is one of incomplete, incomplete_expired, trialing, active, past_due, unpaid, paused, canceled.
	Status string
	Items  []Item `json:",omitempty"`
	// Partial is set if the event contains only the first items of the subscription, because it has too many.
	Partial bool `json:",omitempty"`
	// Start, TrialEnd and the times below are zero if the provider did not set them.
	Start    time.Time `json:",omitzero"`
	TrialEnd time.Time `json:",omitzero"`
	// MissingPayment is the provider's action at the end of a trial without a payment method: cancel or pause. It is
	// empty if the subscription continues. PaymentMethod is set if the subscription has a payment method, or if the
	// event contains a customer with one.
	MissingPayment    string    `json:",omitempty"`
	PaymentMethod     bool      `json:",omitempty"`
	CancelAt          time.Time `json:",omitzero"`
	CancelAtPeriodEnd bool      `json:",omitempty"`
	CanceledAt        time.Time `json:",omitzero"`
	EndedAt           time.Time `json:",omitzero"`
	// CollectionPaused is set while payments are not collected. It does not affect access.
	CollectionPaused bool `json:",omitempty"`
	// CollectionMethod is charge_automatically or send_invoice.
	CollectionMethod string `json:",omitempty"`
	// Account and Plan are metadata.account and metadata.plan of the subscription. Both are empty for a connected
	// account, because the owner of that account could write any name.
	Account string `json:",omitempty"`
	Plan    string `json:",omitempty"`
	// Before is the subscription before the change. It is nil if the event has no previous_attributes.
	Before *Subscription `json:",omitempty"`
}

// Item is one price of a subscription.
type Item struct {
	ID    string `json:",omitempty"`
	Price string
	// LookupKey is the lookup key of the price. It is empty for a connected account, because the owner of that account
	// could write any key.
	LookupKey string `json:",omitempty"`
	Product   string `json:",omitempty"`
	Quantity  int64  `json:",omitempty"`
	// None is set if the event contains quantity 0, which means that nothing of the price is purchased. A metered item
	// has no quantity, so None is not set for it.
	None bool `json:",omitempty"`
	// Metered is set for an item that is billed by usage. It adds no seats.
	Metered bool `json:",omitempty"`
	// PeriodStart and PeriodEnd bound the current period.
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
}

// Currency returns the currency of the amounts, or "" if the fact has no amount.
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

// Invoice is a snapshot of an invoice. Amounts are in minor units of Currency.
type Invoice struct {
	// Status is draft, open, paid, uncollectible, void, or deleted for a deleted draft.
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
	// Failed is set if the event reports a failed payment, a payment that waits for the customer, or a missed due date.
	Failed             bool      `json:",omitempty"`
	NextAttempt, DueAt time.Time `json:",omitzero"`
	// CreatedAt is set for a reconciled invoice. The fact has the current time, and the invoice may be old.
	CreatedAt time.Time `json:",omitzero"`
	// PaidAt is the time of full payment. It is zero if the event does not report it.
	PaidAt time.Time `json:",omitzero"`
	// Stuck is the error code of the last attempt to finalize the draft. It is empty if no attempt failed.
	Stuck string `json:",omitempty"`
	// Number is the invoice number for the customer. A draft has no number.
	Number string `json:",omitempty"`
	// How is [PaidByCharge], [PaidOutOfBand], or empty if the event does not report it.
	How string `json:",omitempty"`
	// Balance is the amount that the customer balance paid in addition to Due. It is negative if the invoice gave the
	// customer a credit.
	Balance int64 `json:",omitempty"`
	// Subscription is empty for an invoice without a subscription.
	Subscription string `json:",omitempty"`
	// Account is metadata.account of the subscription in the invoice, or else of the invoice. Plan is metadata.plan of
	// the subscription. Both are empty for a connected account.
	Account string `json:",omitempty"`
	Plan    string `json:",omitempty"`
	Lines   []Line `json:",omitempty"`
	// Partial is set if the event contains only the first lines of the invoice, because it has too many.
	Partial bool `json:",omitempty"`
}

// The values of [Invoice.How]: paid through the provider or outside of it.
const (
	PaidByCharge  = "charge"
	PaidOutOfBand = "out_of_band"
)

// Line is one line of an invoice.
type Line struct {
	Subscription string `json:",omitempty"`
	Price        string `json:",omitempty"`
	// LookupKey and Product have the meaning of the fields of [Item].
	LookupKey string `json:",omitempty"`
	Product   string `json:",omitempty"`
	Quantity  int64  `json:",omitempty"`
	// None is set if the event contains quantity 0. A line without a quantity has Quantity 0 and None unset.
	None        bool `json:",omitempty"`
	Amount      int64
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
	Proration   bool      `json:",omitempty"`
	Metered     bool      `json:",omitempty"`
	// Credit is set for a line that credits the charge of another line.
	Credit bool `json:",omitempty"`
}

// Payment is a snapshot of a charge, a payment intent or an invoice payment. Object is the ID of the payment intent, or
// of the charge if there is no payment intent. All charges of one payment intent are one payment.
type Payment struct {
	// Status is the provider's status of the payment intent or charge. An authorised charge without a capture has the
	// status requires_capture.
	Status  string
	Invoice string `json:",omitempty"`
	Charge  string `json:",omitempty"`
	// Amount is the captured amount. It is 0 while the payment is only authorised.
	Amount   int64
	Currency string
	// Refunded is the cumulative refunded amount of the charge. It is nil for objects other than a charge.
	Refunded *int64 `json:",omitempty"`
	// OutOfBand is set for a payment outside of the provider. NoInvoice is set if the payment is known to pay no
	// invoice.
	OutOfBand bool `json:",omitempty"`
	NoInvoice bool `json:",omitempty"`
	// PaidAt is the time when the money moved. It is zero if the event does not report that time. CreatedAt is the time
	// when the charge was created, which is an estimate of PaidAt. CreatedAt is zero for a charge that was first
	// authorised and later captured: its money moved at the capture.
	PaidAt    time.Time `json:",omitzero"`
	CreatedAt time.Time `json:",omitzero"`
	// ToldAlone is set if the refund is reported by its charge alone, because the API version has no refund events.
	ToldAlone bool `json:",omitempty"`
}

// Checkout is a snapshot of a checkout session.
type Checkout struct {
	// Mode is payment, setup or subscription. Status is open, complete or expired. PaymentStatus is unpaid, paid or
	// no_payment_required.
	Mode, Status, PaymentStatus string
	Subscription                string `json:",omitempty"`
	Invoice                     string `json:",omitempty"`
	PaymentIntent               string `json:",omitempty"`
	// Account is client_reference_id, or else metadata.account.
	Account  string `json:",omitempty"`
	Amount   int64
	Currency string
	Tax      int64 `json:",omitempty"`
	// Lines are the purchased lines. Events do not contain the lines; they are fetched. Price is metadata.price, which
	// names the purchased price if the lines are unknown.
	Lines []Line `json:",omitempty"`
	Price string `json:",omitempty"`
}

// Refund is a snapshot of a refund.
type Refund struct {
	// Status is pending, requires_action, succeeded, failed or canceled.
	Status        string
	Charge        string `json:",omitempty"`
	PaymentIntent string `json:",omitempty"`
	Amount        int64
	Currency      string
	// CreatedAt is the time of creation. It is zero if the event does not report it.
	CreatedAt time.Time `json:",omitzero"`
	// Returned is set for a refund that failed after its money had moved.
	Returned bool `json:",omitempty"`
	// ByCharge is set for a refund that pawl derived from the refunded amount of a charge. It covers all refunds of the
	// charge that were unknown at the time. Known lists the refunds that were known.
	ByCharge bool     `json:",omitempty"`
	Known    []string `json:",omitempty"`
}

// Dispute is a snapshot of a dispute.
type Dispute struct {
	Status        string
	Charge        string
	PaymentIntent string `json:",omitempty"`
	Reason        string `json:",omitempty"`
	Amount        int64
	Currency      string
	EvidenceDue   time.Time `json:",omitzero"`
	// Movements lists the balance transactions of the dispute, for any status.
	Movements []Movement `json:",omitempty"`
}

// Movement is one balance transaction of a dispute. A negative amount was withdrawn, a positive amount was reinstated.
type Movement struct {
	ID       string
	Amount   int64
	Currency string
	// Fee is the provider's fee in addition to Amount. It is negative if the provider returned a fee.
	Fee int64 `json:",omitempty"`
	// OccurredAt is the time of the balance transaction. If the event does not contain that time, package fold uses the
	// time of the first event with the transaction.
	OccurredAt time.Time `json:",omitzero"`
}

// Credit is a snapshot of a credit note.
type Credit struct {
	// Status is issued or void.
	Status  string
	Invoice string
	// Amount is the credited part of the money that was received. It excludes the part that the refunds of the credit
	// note return. Tax is the tax in Amount.
	Amount   int64
	Tax      int64 `json:",omitempty"`
	Currency string
	// OutOfBand is the part of Amount that was returned outside of the provider. The rest was added to the customer
	// balance.
	OutOfBand int64  `json:",omitempty"`
	Reason    string `json:",omitempty"`
}

// Warning is a snapshot of an early fraud warning.
type Warning struct {
	Charge        string
	PaymentIntent string `json:",omitempty"`
	// Type is the fraud type that the card issuer reports.
	Type string `json:",omitempty"`
	// Actionable is set while a refund may still prevent a dispute.
	Actionable bool
}

// Link links the object of the fact to an account. The object is a customer, a subscription or money.
type Link struct {
	Account string
	// Checkout is set for a link from a checkout session. Any other link takes precedence. If there are several
	// checkout links, the first one applies.
	Checkout bool `json:",omitempty"`
	// Of is the kind of the object if a person assigned money to the account. Payment is the payment of that object.
	// Both are empty for a customer and a subscription.
	Of      string `json:",omitempty"`
	Payment string `json:",omitempty"`
}

// Decision is a decision of a person, or a refusal of an external system.
type Decision struct {
	By     string
	Reason string
	// Prices are the withheld prices. It is set for the kind [Withheld].
	Prices []Bought `json:",omitempty"`
	// Invoice or Checkout is the purchase that an external system refused to provision. Both are empty for other
	// decisions.
	Invoice  string `json:",omitempty"`
	Checkout string `json:",omitempty"`
	// Account is set if the decision holds or releases a whole account. Object is then the account, too.
	Account string `json:",omitempty"`
}
