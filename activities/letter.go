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
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Letter is what a customer is written.
type Letter struct {
	// Template is the letter's name; see package letters.
	Template string
	Mode     string
	Account  string
	// Object is the provider's ID of its subject. A letter shows it only where that has no Number.
	Object string
	Number string `json:",omitempty"`
	// Customer is the provider's, or the checkout session of a guest. The address is read when the letter is sent.
	Customer string `json:",omitempty"`
	// Amount is in minor units of Currency.
	Amount   int64  `json:",omitempty"`
	Currency string `json:",omitempty"`
	Plan     string `json:",omitempty"`
	Quantity int64  `json:",omitempty"`
	// PeriodStart and PeriodEnd are zero for a letter that is about no period.
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
	// EndsAt is the end that it tells of, zero for none.
	EndsAt time.Time `json:",omitzero"`
	// Because is why access ends; see [letters.Content].
	Because string `json:",omitempty"`
	// Unpaid is what becomes of a trial that has no payment method by its end; see [letters.Content].
	Unpaid string `json:",omitempty"`
	// DueAt is the due date of an invoice without an attempt to pay it. It is zero in other letters.
	DueAt time.Time `json:",omitzero"`
	// OccurredAt is when it happened; the letter has this date.
	OccurredAt time.Time
	// Notice is set for a letter that is true for a while.
	Notice *Notice `json:",omitempty"`
}

// MailSink is a mail server and how letters are handed to it.
//
// SMTP cannot say whether a mail was accepted when the connection breaks after the final dot (RFC
// 1047), so the guarantee is a choice: at most once by default (a broken attempt is uncertain, and a
// person decides), at least once where configured (it is sent again, with the same Message-ID).
type MailSink struct {
	Mailer *Mailer
	From   string
	// AtLeastOnce sends again when nobody knows.
	AtLeastOnce bool
	Policy      effect.Policy
}

// Mail sends letters to customers.
type Mail struct {
	Effects  *effect.Runner
	Receipts Receipts
	// Facts knows how customers are written to, and whether notices are still true.
	Facts   *billing.Store
	Letters *letters.Set
	// Sinks are the mail servers by mode. A mode without one has its letters left out.
	Sinks map[string]MailSink
	Now   func() time.Time
	// Settle is how long a letter that tells a state waits for other events about that; see [Notice.settles].
	Settle time.Duration
	// Apart is how long no other letter of a [Notice.Series] goes out after one.
	Apart time.Duration
}

// sentMail is what the ledger keeps of a mail: no address.
type sentMail struct {
	MessageID string
}

// SendLetter sends a letter to the customer. A letter that is off, one that is not true any more, and one to a customer
// without an address, is skipped. One that tells a state waits first, and has claimed nothing then.
func (m *Mail) SendLetter(ctx context.Context, in EffectInput[Letter]) (effect.Result, error) {
	if err := in.Effect.Check(in.For.Mode); err != nil {
		return effect.Result{}, err
	}
	sink, configured := m.Sinks[in.For.Mode]
	if !configured {
		return leaveOut(ctx, m.Effects, in.Effect)
	}
	if rest, err := m.unsettled(ctx, in); err != nil || rest > 0 {
		return effect.Result{State: effect.Waits, Wait: rest, Reason: settling}, err
	}
	policy := sink.Policy
	policy.About, policy.Marks = in.For.Mode+":"+in.For.Account, !sink.AtLeastOnce
	if in.For.Notice != nil {
		policy.Exclusive = in.For.about()
	}
	return m.Effects.Do(ctx, in.Effect, policy, nil, func(ctx context.Context, a *effect.Attempt) (any, error) {
		to, err := m.wanted(ctx, in)
		if err != nil {
			return nil, err
		}
		id := messageID(a.IdempotencyKey, sink.From)
		message, err := m.compose(in.For, to, sink.From, id)
		if err != nil {
			return nil, err
		}
		pointOfNoReturn := a.Commit
		if sink.AtLeastOnce {
			pointOfNoReturn = func() error { return nil }
		}
		if err := sink.Mailer.Send(ctx, Message{From: sink.From, To: to.Email, Data: message},
			pointOfNoReturn); err != nil {
			return nil, sink.failure(err)
		}
		return sentMail{MessageID: id}, nil
	})
}

// settling is why a letter waits.
const settling = "a letter waits until the state has settled"

// unsettled returns for how long a letter still waits for its state to settle. That counts from when the event was
// received, or from when the clock's time had come, which is later.
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

// wanted returns whom a letter is sent to. Its error is an [effect.NotWanted] where it is sent to nobody.
func (m *Mail) wanted(ctx context.Context, in EffectInput[Letter]) (to billing.Address, err error) {
	l := in.For
	if m.Letters.Off(l.Template) {
		return to, &effect.NotWanted{Reason: "the letter " + l.Template + " is off"}
	}
	switch why, err := m.untrue(ctx, l); {
	case err != nil:
		return to, effect.Infrastructure(err)
	case why != "":
		return to, &effect.NotWanted{Reason: why}
	}
	of := billing.Subject{Provider: in.Effect.Provider, ProviderAccount: in.Effect.Account, Mode: l.Mode,
		Customer: l.Customer}
	switch to, err = m.Facts.Address(ctx, of, l.Object); {
	case err != nil:
		return to, effect.Infrastructure(err)
	case !to.Forgotten.IsZero():
		return to, &effect.NotWanted{Reason: "the customer was forgotten at " + to.Forgotten.Format(time.RFC3339)}
	case to.Email == "":
		return to, &effect.NotWanted{Reason: "no address is held: nothing that came tells a usable one of the customer"}
	}
	return to, nil
}

// failure makes an unknown outcome a repeatable one where the guarantee is at least once. It stays known
// that the mail may have been taken: when a later attempt is refused, a correction has to follow it.
func (s MailSink) failure(err error) error {
	if class, _ := effect.Classify(err); class == ledger.Ambiguous && s.AtLeastOnce {
		return &effect.Failure{Class: ledger.Transient, Unanswered: true,
			Err: errors.New("outcome unknown, sent again"), Said: err.Error()}
	}
	return err
}

// compose writes the message. Everything in it follows from the letter and the address, so that a repeat is the same
// mail; go-mail refuses addresses that would smuggle in headers.
func (m *Mail) compose(l Letter, to billing.Address, from, messageID string) ([]byte, error) {
	subject, text, err := m.write(l, to)
	if err != nil {
		return nil, effect.Fault("compose letter: %w", err)
	}
	msg := mail.NewMsg()
	if err := msg.From(from); err != nil {
		return nil, effect.Fault("from address of the configuration: %w", err)
	}
	if err := msg.To(to.Email); err != nil {
		// The address is personal data and stays out of the error.
		return nil, effect.Refuse("the recipient's is no valid address")
	}
	msg.Subject(subject)
	msg.SetMessageIDWithValue(messageID)
	msg.SetDateWithValue(l.OccurredAt.UTC())
	msg.SetGenHeader("X-Pawl-Account", l.Account)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, text)
	var out bytes.Buffer
	if _, err := msg.WriteTo(&out); err != nil {
		return nil, effect.Fault("write letter: %w", err)
	}
	return out.Bytes(), nil
}

func (m *Mail) write(l Letter, to billing.Address) (subject, text string, err error) {
	content := letters.Content{
		Account: l.Account, Number: cmp.Or(l.Number, l.Object), Plan: l.Plan,
		Quantity: l.Quantity, URL: to.Page, EndsAt: l.EndsAt.UTC(), DueAt: l.DueAt.UTC(),
		Unpaid: l.Unpaid, Because: l.Because,
		PeriodStart: l.PeriodStart.UTC(), PeriodEnd: l.PeriodEnd.UTC(), OccurredAt: l.OccurredAt.UTC(),
	}
	if l.Currency != "" {
		content.Amount = stripe.Money(l.Amount, l.Currency)
	}
	return m.Letters.Write(l.Template, content)
}

// messageID derives the stable Message-ID from the effect's key: readable, and unique by its hash.
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
