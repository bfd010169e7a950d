package activities

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Email sends mail to customers.
//
// SMTP cannot say whether a mail was accepted when the connection breaks after the final dot (RFC
// 1047), so the guarantee is a choice: at most once by default (a broken attempt is uncertain, and a
// person decides), at least once where configured (it is sent again, with the same Message-ID).
type Email struct {
	Effects  *effect.Runner
	Receipts Receipts
	Mailer   *Mailer
	From     string
	// AtLeastOnce sends again when nobody knows.
	AtLeastOnce bool
	Policy      effect.Policy
}

// SendReceiptEmail sends the receipt of a paid invoice to the address on it. An invoice without an
// address is skipped.
func (e *Email) SendReceiptEmail(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	f := in.Fact
	return e.send(ctx, in, letter{
		subject: "Receipt for invoice " + f.Invoice,
		text: fmt.Sprintf("Thank you.\n\nWe have received %s for invoice %s.\nPlan: %s\nPaid until: %s\n",
			money(f.Amount, f.Currency), f.Invoice, f.Plan, f.PeriodEnd.UTC().Format("2 January 2006")),
	})
}

// SendCorrectionNotice tells the customer that what the receipt promised was taken back. It is the undo
// of SendReceiptEmail: a mail cannot be unsent.
func (e *Email) SendCorrectionNotice(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	f := in.Fact
	return e.send(ctx, in, letter{
		subject: "Correction: invoice " + f.Invoice,
		text: fmt.Sprintf("We have received %s for invoice %s, but could not provide the plan %s.\n"+
			"The booking has been reversed. We will contact you about the payment.\n", money(f.Amount, f.Currency), f.Invoice, f.Plan),
	})
}

// letter is a mail without its envelope.
type letter struct{ subject, text string }

// sentMail is what the ledger keeps of a mail: no address.
type sentMail struct {
	MessageID string
}

func (e *Email) send(ctx context.Context, in InvoiceEffectInput, l letter) (effect.Result, error) {
	policy := e.Policy
	policy.Marks = !e.AtLeastOnce
	return e.Effects.Do(ctx, in.Effect, policy, nil, func(ctx context.Context, a *effect.Attempt) (any, error) {
		to, err := emailOf(ctx, e.Receipts, in.Fact.ReceiptID)
		if err != nil {
			return nil, err
		}
		id := messageID(a.IdempotencyKey, e.From)
		message, err := e.compose(in.Fact, to, id, l)
		if err != nil {
			return nil, effect.Refuse("compose mail: %w", err)
		}
		pointOfNoReturn := a.Commit
		if e.AtLeastOnce {
			pointOfNoReturn = func() error { return nil }
		}
		if err := e.Mailer.Send(ctx, Mail{From: e.From, To: to, Data: message}, pointOfNoReturn); err != nil {
			return nil, e.failure(err)
		}
		return sentMail{MessageID: id}, nil
	})
}

// failure makes an unknown outcome a repeatable one where the guarantee is at least once. It stays known
// that the mail may have been taken: when a later attempt is refused, a correction has to follow it.
func (e *Email) failure(err error) error {
	if class, _ := effect.Classify(err); class == ledger.Ambiguous && e.AtLeastOnce {
		return &effect.Failure{Class: ledger.Transient, Unanswered: true, Err: fmt.Errorf("outcome unknown, sent again: %s", err)}
	}
	return err
}

// compose writes the message. Everything in it follows from the fact, so that a repeat is the same
// mail; go-mail refuses addresses that would smuggle in headers.
func (e *Email) compose(f billing.InvoicePaid, to, messageID string, l letter) ([]byte, error) {
	m := mail.NewMsg()
	if err := m.From(e.From); err != nil {
		return nil, fmt.Errorf("from address of the configuration: %w", err)
	}
	if err := m.To(to); err != nil {
		// The address is personal data and stays out of the error.
		return nil, fmt.Errorf("the invoice's customer_email is no valid address")
	}
	m.Subject(l.subject)
	m.SetMessageIDWithValue(messageID)
	m.SetDateWithValue(f.OccurredAt.UTC())
	m.SetGenHeader("X-Pawl-Account", f.Account)
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(mail.TypeTextPlain, l.text)
	var out bytes.Buffer
	if _, err := m.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("write message: %w", err)
	}
	return out.Bytes(), nil
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

// emailOf reads the address from the receipt where it is needed, so that it is nowhere else.
func emailOf(ctx context.Context, receipts Receipts, receiptID string) (string, error) {
	body, err := receipts.Body(ctx, receiptID)
	if errors.Is(err, receipt.ErrNotFound) {
		return "", &effect.NotWanted{Reason: "the receipt's body, which holds the address, is no longer held"}
	}
	if err != nil {
		return "", effect.Infrastructure(err)
	}
	address, err := stripe.ReadCustomerEmail(body.Bytes)
	if err != nil {
		return "", effect.Refuse("read the address: %w", err)
	}
	if address == "" {
		return "", &effect.NotWanted{Reason: "the invoice has no customer_email"}
	}
	return address, nil
}
