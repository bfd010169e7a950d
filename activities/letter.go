package activities

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/letters"
	"github.com/pawlhq/pawl/activities/smtp"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/money"
)

// Letter is an e-mail to a customer.
type Letter struct {
	// Template is the name of the template; see package letters.
	Template string
	Mode     string
	Account  string
	// Object is the provider's ID of the object that the e-mail is about. The e-mail shows it only if Number is "".
	Object string
	Number string `json:",omitempty"`
	// Customer is the provider's customer ID, or the checkout session of a guest. The address is read when the e-mail
	// is sent.
	Customer string `json:",omitempty"`
	// Amount is in minor units of Currency.
	Amount   int64  `json:",omitempty"`
	Currency string `json:",omitempty"`
	Plan     string `json:",omitempty"`
	Quantity int64  `json:",omitempty"`
	// PeriodStart and PeriodEnd are zero if the e-mail concerns no period.
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
	// EndsAt is the announced end of access or of the trial. It is zero in other e-mails.
	EndsAt time.Time `json:",omitzero"`
	// Reason is the reason why access ends; see [letters.Content].
	Reason string `json:",omitempty"`
	// Unpaid is the outcome of a trial without a payment method; see [letters.Content].
	Unpaid string `json:",omitempty"`
	// DueAt is the due date of an invoice without an attempt to pay it. It is zero in other e-mails.
	DueAt time.Time `json:",omitzero"`
	// OccurredAt is the time of the event. It is the date of the e-mail.
	OccurredAt time.Time
	// Notice is set if the e-mail is sent only while a condition holds.
	Notice *Notice `json:",omitempty"`
}

// MailSink configures a mail server and the delivery guarantee.
//
// If the connection breaks after the final dot, pawl cannot know whether the server accepted the e-mail (RFC 1047). The
// guarantee is therefore configurable. By default it is at most once: the effect is uncertain, and a person decides.
// With AtLeastOnce, pawl sends the e-mail again with the same Message-ID. With KeyHeader, pawl sends it again with the
// same idempotency key during the lifetime of the key, and the relay deduplicates.
type MailSink struct {
	Mailer *smtp.Client
	From   string
	// AtLeastOnce repeats an attempt with an unknown outcome.
	AtLeastOnce bool
	// KeyHeader is the name of the header in which the mail relay expects the idempotency key, or "". The policy
	// contains the lifetime of the key.
	KeyHeader string
	Policy    effect.Policy
}

// repeats reports whether an attempt with an unknown outcome is repeated.
func (s MailSink) repeats() bool { return s.AtLeastOnce || s.KeyHeader != "" }

// Mail sends e-mails to customers.
type Mail struct {
	Effects  *effect.Runner
	Receipts Receipts
	// Facts reads addresses, and the state that the conditions of notices depend on.
	Facts   *billing.Store
	Letters *letters.Set
	// Sinks are the mail servers by mode. If the mode has no server, e-mails are skipped.
	Sinks map[string]MailSink
	Now   func() time.Time
	// Settle is how long an e-mail about a state is delayed, because other events may still change that state; see
	// [Notice.settles].
	Settle time.Duration
	// Apart is the minimum time between two e-mails of a [Notice.Series].
	Apart time.Duration
}

// sentMail is the result of an e-mail in the ledger. It contains no address.
type sentMail struct {
	MessageID string
}

// SendLetter sends an e-mail to the customer. It skips the e-mail if it is switched off, if its content is no longer
// true, or if the customer has no address. It delays an e-mail about a state by [Mail.Settle]; during the delay, no
// claim of the effect exists.
func (m *Mail) SendLetter(ctx context.Context, in EffectInput[Letter]) (effect.Result, error) {
	if err := in.Effect.Check(in.For.Mode); err != nil {
		return effect.Result{}, err
	}
	sink, configured := m.Sinks[in.For.Mode]
	if !configured {
		return LeaveOut(ctx, m.Effects, in.Effect)
	}
	if rest, err := m.unsettled(ctx, in); err != nil || rest > 0 {
		return effect.Result{State: effect.Waits, Wait: rest, Reason: settling}, err
	}
	policy := sink.Policy
	policy.About, policy.Marks = in.For.Mode+":"+in.For.Account, !sink.repeats()
	if in.For.Notice != nil {
		policy.Exclusive = in.For.about()
	}
	var sum []byte
	if sink.KeyHeader != "" {
		var err error
		if sum, err = m.sum(ctx, in, sink); err != nil {
			return effect.Result{}, err
		}
	}
	return m.Effects.Do(ctx, in.Effect, policy, sum, func(ctx context.Context, a *effect.Attempt) (any, error) {
		letter := in.For
		to, err := m.wanted(ctx, in.Effect, &letter)
		if err = cmp.Or(err, a.Lost(in.For.OccurredAt)); err != nil {
			return nil, err
		}
		id := messageID(a.IdempotencyKey, sink.From)
		message, err := m.compose(letter, to, sink, id, a.IdempotencyKey)
		if err != nil {
			return nil, err
		}
		if a.Repeat && sink.KeyHeader != "" && !bytes.Equal(a.Request, sum) {
			return nil, effect.Doubt("the e-mail, its sender or its address has changed since the first attempt, so the mail " +
				"relay may refuse the changed e-mail, because it has the same key")
		}
		pointOfNoReturn := a.Commit
		if sink.repeats() {
			pointOfNoReturn = func() error { return nil }
		}
		if err := sink.Mailer.Send(ctx, smtp.Message{From: sink.From, To: to.Email, Data: message},
			pointOfNoReturn); err != nil {
			return nil, sink.failure(err)
		}
		return sentMail{MessageID: id}, nil
	})
}

// settling is the reason why an e-mail waits.
const settling = "the e-mail waits until the state has settled"

// unsettled returns the rest of the delay of an e-mail about a state. The delay begins when the event was received or
// when the scheduled action was due, whichever is later.
func (m *Mail) unsettled(ctx context.Context, in EffectInput[Letter]) (time.Duration, error) {
	if m.Settle == 0 || in.Effect.ByHand != nil || !in.For.Notice.settles() || m.Letters.Off(in.For.Template) {
		return 0, nil
	}
	r, err := m.Receipts.Get(ctx, in.Effect.ReceiptID)
	if err != nil {
		return 0, effect.Infrastructure(err)
	}
	now, since := m.Now(), r.ReceivedAt
	if at := in.For.Notice.Since; at.After(since) && !at.After(now) { // the provider's clock may be ahead
		since = at
	}
	return min(m.Settle-now.Sub(since), m.Settle), nil
}

// wanted returns the recipient, and updates the amount in the e-mail. If the e-mail must not be sent, the error is an
// [effect.NotWanted].
func (m *Mail) wanted(ctx context.Context, call effect.Call, l *Letter) (to billing.Address, err error) {
	if m.Letters.Off(l.Template) {
		return to, &effect.NotWanted{Reason: "the e-mail " + l.Template + " is switched off"}
	}
	switch why, err := m.untrue(ctx, l); {
	case err != nil:
		return to, effect.Infrastructure(err)
	case why != "":
		return to, &effect.NotWanted{Reason: why}
	}
	of := fact.Subject{Provider: call.Provider, ProviderAccount: call.Account, Mode: l.Mode, Customer: l.Customer}
	switch to, err = m.Facts.Address(ctx, of, l.Object); {
	case err != nil:
		return to, effect.Infrastructure(err)
	case !to.Forgotten.IsZero():
		return to, &effect.NotWanted{Reason: "the customer was forgotten at " + to.Forgotten.Format(time.RFC3339)}
	case !to.Deleted.IsZero():
		return to, &effect.NotWanted{Reason: "the customer was deleted at " + to.Deleted.Format(time.RFC3339)}
	case to.Email == "":
		return to, &effect.NotWanted{Reason: "no usable e-mail address of the customer is known"}
	}
	return to, nil
}

// sum returns the hash of the e-mail with its sender and address. It returns nil if the e-mail is not sent. The ledger
// stores the hash of the first attempt.
func (m *Mail) sum(ctx context.Context, in EffectInput[Letter], sink MailSink) ([]byte, error) {
	letter := in.For
	to, err := m.wanted(ctx, in.Effect, &letter)
	if _, unwanted := errors.AsType[*effect.NotWanted](err); unwanted {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	message, err := m.compose(letter, to, sink, messageID(in.Effect.Key, sink.From), in.Effect.Key)
	if err != nil {
		return nil, nil // the attempt fails with the same error
	}
	hash := sha256.Sum256(message)
	return []byte(`"` + hex.EncodeToString(hash[:]) + `"`), nil
}

// failure makes an unknown outcome retryable if s.repeats. The failure stays unanswered, so that a correction is sent
// even if a later attempt is refused.
func (s MailSink) failure(err error) error {
	if class, _ := effect.Classify(err); class == ledger.Ambiguous && s.repeats() {
		return &effect.Failure{Class: ledger.Transient, Unanswered: true,
			Err: errors.New("the outcome is unknown; the e-mail is sent again"), Detail: err.Error()}
	}
	return err
}

// compose renders the message. The result depends only on the e-mail and the address, so every attempt has the same
// bytes. go-mail rejects addresses that would inject headers.
func (m *Mail) compose(l Letter, to billing.Address, sink MailSink, messageID, key string) ([]byte, error) {
	subject, text, err := m.write(l, to)
	if err != nil {
		return nil, effect.Fault("compose e-mail: %w", err)
	}
	msg := mail.NewMsg()
	if err := msg.From(sink.From); err != nil {
		return nil, effect.Fault("from address of the configuration: %w", err)
	}
	if err := msg.To(to.Email); err != nil {
		// The address is personal data and stays out of the error.
		return nil, effect.Refuse("the recipient's address is not valid")
	}
	msg.Subject(subject)
	msg.SetMessageIDWithValue(messageID)
	msg.SetDateWithValue(l.OccurredAt.UTC())
	msg.SetGenHeader("X-Pawl-Account", l.Account)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if sink.KeyHeader != "" {
		msg.SetGenHeader(mail.Header(sink.KeyHeader), key)
	}
	msg.SetBodyString(mail.TypeTextPlain, text)
	var out bytes.Buffer
	if _, err := msg.WriteTo(&out); err != nil {
		return nil, effect.Fault("write e-mail: %w", err)
	}
	return out.Bytes(), nil
}

func (m *Mail) write(l Letter, to billing.Address) (subject, text string, err error) {
	content := letters.Content{
		Account: l.Account, Number: cmp.Or(l.Number, l.Object), Plan: l.Plan,
		Quantity: l.Quantity, URL: to.Page, EndsAt: l.EndsAt.UTC(), DueAt: l.DueAt.UTC(),
		Unpaid: l.Unpaid, Reason: l.Reason,
		PeriodStart: l.PeriodStart.UTC(), PeriodEnd: l.PeriodEnd.UTC(), OccurredAt: l.OccurredAt.UTC(),
	}
	if l.Currency != "" {
		content.Amount = money.Format(l.Amount, l.Currency)
	}
	return m.Letters.Write(l.Template, content)
}

// messageID derives a stable Message-ID from the effect's key. The hash makes it unique.
func messageID(key, from string) string {
	sum := sha256.Sum256([]byte(key))
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '.'
	}, key)
	const most = 80
	readable = strings.Trim(readable[:min(len(readable), most)], ".")
	_, domain, found := strings.Cut(strings.TrimSuffix(from, ">"), "@")
	if !found {
		domain = "pawl.invalid"
	}
	return readable + "." + hex.EncodeToString(sum[:6]) + "@" + domain
}
