package activities_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/quotedprintable"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/letters"
	"github.com/pawlhq/pawl/activities/smtp"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

func (b *bundle) mail(box *activitiestest.Mailbox, atLeastOnce bool) *activities.Mail {
	b.Helper()
	set, err := letters.Load("", letters.English, []string{letters.SubscriptionEnded})
	if err != nil {
		b.Fatal(err)
	}
	return &activities.Mail{
		Effects: b.effects, Receipts: b.receipts, Facts: billing.New(b.pool), Letters: set, Now: func() time.Time { return known },
		Sinks: map[string]activities.MailSink{"live": {
			Mailer: &smtp.Client{Address: box.Address, TLS: smtp.NoTLS, Roots: box.Roots},
			From:   "Pawl <billing@pawl.test>", AtLeastOnce: atLeastOnce,
			Policy: effect.Policy{Timeout: time.Second, Retries: retries},
		}},
	}
}

// told stores an event of an invoice that contains the customer's address.
func (b *bundle) told(email string) { b.toldBy(invoice(email)) }

func (b *bundle) toldBy(body string) {
	b.Helper()
	of := fact.Subject{Provider: "stripe", Mode: "live", EventID: uuid.NewString(), EventType: "invoice.paid"}
	err := pgx.BeginFunc(b.Context(), b.pool, func(tx pgx.Tx) error {
		return billing.KeepAddress(b.Context(), tx, stripe.ReadAddress([]byte(body), of))
	})
	if err != nil {
		b.Fatal(err)
	}
}

// letterAbout returns an e-mail to cus_1 about an object.
func letterAbout(template string) activities.EffectInput[activities.Letter] {
	start := time.Unix(1772323200, 0).UTC()
	return activities.EffectInput[activities.Letter]{Effect: call(template, "in_1"), For: activities.Letter{
		Template: template, Mode: "live", Account: "acme", Object: "in_1", Number: "A-1", Customer: "cus_1", Amount: 4900, Currency: "usd", Plan: "pro",
		PeriodStart: start, PeriodEnd: start.AddDate(0, 1, 0), OccurredAt: start.Add(time.Minute),
	}}
}

func TestSendLetter_WhatArrives(t *testing.T) {
	b := setup(t)
	box := activitiestest.NewMailbox(t, false)
	m := b.mail(box, false)
	b.told("ada@example.com")
	must(b, effect.Done, m.SendLetter, letterAbout("receipt"))
	must(b, effect.AlreadyDone, m.SendLetter, letterAbout("receipt"))
	must(b, effect.Done, m.SendLetter, letterAbout("correction"))
	if got := must(b, effect.Skipped, m.SendLetter, letterAbout("subscription-ended")); got.Reason != "the e-mail subscription-ended is switched off" {
		t.Errorf("result %+v", got)
	}
	mails := box.Mails()
	if len(mails) != 2 {
		t.Fatalf("%d mails, want 2", len(mails))
	}
	receipt := mails[0]
	if receipt.From != "billing@pawl.test" || !slices.Equal(receipt.To, []string{"ada@example.com"}) {
		t.Errorf("envelope from %s to %v", receipt.From, receipt.To)
	}
	for name, want := range map[string]string{
		"Subject": "Receipt for invoice A-1", "X-Pawl-Account": "acme", "Auto-Submitted": "auto-generated",
		"Date": "Sun, 01 Mar 2026 00:01:00 +0000", "To": "<ada@example.com>",
	} {
		if got := receipt.Header(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	_, body, _ := strings.Cut(receipt.Data, "\r\n\r\n")
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	if err != nil || !strings.Contains(string(text), "49.00 USD for invoice A-1") || !strings.Contains(string(text), "Paid until: 1 April 2026") {
		t.Errorf("text %q, %v", text, err)
	}
	if mails[1].Header("Subject") != "Correction: invoice A-1" || mails[1].Header("Message-ID") == receipt.Header("Message-ID") {
		t.Errorf("correction %q with ID %s", mails[1].Header("Subject"), mails[1].Header("Message-ID"))
	}
	for _, line := range b.lines(`select concat(key, request, result, error) from effects union all select concat(key, error) from effect_attempts`) {
		if strings.Contains(line, "ada@") {
			t.Errorf("the ledger holds the address: %s", line)
		}
	}
}

// takenUnanswered sends an e-mail with the guarantee at-least-once; the server accepts it but does not respond.
func (b *bundle) takenUnanswered() (*activitiestest.Mailbox, *activities.Mail, activities.EffectInput[activities.Letter]) {
	b.Helper()
	box := activitiestest.NewMailbox(b.T, false)
	box.Next(activitiestest.Break{At: activitiestest.AtDot, Keep: true})
	m := b.mail(box, true)
	b.told("ada@example.com")
	in := letterAbout("receipt")
	_, err := do(b, m.SendLetter, in)
	wantAgain(b.T, err)
	return box, m, in
}

// A repeated e-mail has the same Message-ID, so that mail clients can show it once.
func TestSendLetter_AtLeastOnce_SentAgainWithTheSameID(t *testing.T) {
	b := setup(t)
	box, m, in := b.takenUnanswered()
	must(b, effect.Done, m.SendLetter, in)
	mails := box.Mails()
	if len(mails) != 2 || mails[0].Data != mails[1].Data || mails[0].Header("Message-ID") == "" {
		t.Errorf("mails %+v, want the same one twice", mails)
	}
}

// The customer has received the first e-mail even if the server rejects the repetition, so a compensation sends a
// correction.
func TestSendLetter_AtLeastOnce_TakenThenRefused_MayHaveHappened(t *testing.T) {
	b := setup(t)
	box, m, in := b.takenUnanswered()
	box.Next(activitiestest.Break{At: activitiestest.AtRcpt, Code: 550})
	got := must(b, effect.Refused, m.SendLetter, in)
	if len(box.Mails()) != 1 || !got.MayHaveHappened() {
		t.Errorf("%d mails, result %+v; want one, and that it is known", len(box.Mails()), got)
	}
	in.Effect.Round = got.Round + 1 // a retry by an operator sends the same e-mail
	must(b, effect.Done, m.SendLetter, in)
	if mails := box.Mails(); len(mails) != 2 || mails[0].Data != mails[1].Data {
		t.Errorf("mails %+v, want the same one twice", mails)
	}
}

// If the relay deduplicates by a header, pawl sends an uncertain e-mail again with the same bytes and the same key,
// and the relay delivers it once. If the e-mail has changed, or if its key has expired at the relay, it waits for a
// person.
func TestSendLetter_KeyHeader_SentAgainAndDeliveredOnce(t *testing.T) {
	t.Parallel()
	const header = "Resend-Idempotency-Key"
	for name, tt := range map[string]struct {
		meanwhile func(b *bundle, in *activities.EffectInput[activities.Letter])
		state     effect.State
		mails     int
	}{
		"same mail":      {func(*bundle, *activities.EffectInput[activities.Letter]) {}, effect.Done, 2},
		"changed letter": {func(_ *bundle, in *activities.EffectInput[activities.Letter]) { in.For.Amount++ }, effect.Uncertain, 1},
		"forgotten key": {func(b *bundle, _ *activities.EffectInput[activities.Letter]) {
			if _, err := b.pool.Exec(b.Context(), `update effects set claimed_at = claimed_at - interval '13 hours'`); err != nil {
				b.Fatal(err)
			}
		}, effect.Uncertain, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			box := activitiestest.NewMailbox(t, false)
			box.Next(activitiestest.Break{At: activitiestest.AtDot, Keep: true})
			m := b.mail(box, false)
			sink := m.Sinks["live"]
			sink.KeyHeader, sink.Policy.KeyLifetime = header, 12*time.Hour
			m.Sinks["live"] = sink
			b.told("ada@example.com")
			in := letterAbout("receipt")
			_, err := do(b, m.SendLetter, in)
			wantAgain(t, err)
			tt.meanwhile(b, &in)
			must(b, tt.state, m.SendLetter, in)
			mails, delivered := box.Mails(), map[string]string{}
			for _, mail := range mails { // deduplicate as the relay does
				if key := mail.Header(header); delivered[key] == "" {
					delivered[key] = mail.Data
				} else if delivered[key] != mail.Data {
					t.Errorf("another mail came under the key %s", key)
				}
			}
			if len(mails) != tt.mails || len(delivered) != 1 || delivered[in.Effect.Key] == "" {
				t.Errorf("%d mails under the keys %v, want %d under %s", len(mails), slices.Collect(maps.Keys(delivered)), tt.mails, in.Effect.Key)
			}
		})
	}
}

// A worker dies while it sends an e-mail. The e-mail was certainly not sent only if it had to set a mark before the
// final dot.
func TestSendLetter_DiedThenRefused(t *testing.T) {
	t.Parallel()
	for name, atLeastOnce := range map[string]bool{"at most once": false, "at least once": true} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			box := activitiestest.NewMailbox(t, false)
			m := b.mail(box, atLeastOnce)
			b.told("ada@example.com")
			in := letterAbout("receipt")
			box.Next(activitiestest.Break{At: activitiestest.AtRcpt, Code: 450})
			_, err := do(b, m.SendLetter, in)
			wantAgain(t, err)
			b.exec(`update effects set state = 'claimed', error_class = '', lease_until = now() - interval '1 second'`)
			box.Next(activitiestest.Break{At: activitiestest.AtRcpt, Code: 550})
			if got := must(b, effect.Refused, m.SendLetter, in); got.MayHaveHappened() != atLeastOnce {
				t.Errorf("result %+v, want may have happened %v", got, atLeastOnce)
			}
		})
	}
}

func wantAgain(t *testing.T, err error) {
	t.Helper()
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != effect.TypeTransient {
		t.Fatalf("error %v, want a transient one", err)
	}
}

// The test covers every failure of an SMTP transaction and the resulting state of the e-mail.
func TestSendLetter_EveryBreak(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cue activitiestest.Break
		// state is the resulting state of the effect; "" means that it is retried and succeeds.
		state effect.State
		mails int
	}{
		"greeting refused": {activitiestest.Break{At: activitiestest.AtGreeting, Code: 421}, "", 1},
		"greeting cut":     {activitiestest.Break{At: activitiestest.AtGreeting}, "", 1},
		"greeting hangs":   {activitiestest.Break{At: activitiestest.AtGreeting, Hang: true}, "", 1},
		"MAIL 4xx":         {activitiestest.Break{At: activitiestest.AtMail, Code: 451}, "", 1},
		"MAIL 5xx":         {activitiestest.Break{At: activitiestest.AtMail, Code: 550}, effect.Failed, 0},
		"MAIL cut":         {activitiestest.Break{At: activitiestest.AtMail}, "", 1},
		"RCPT 4xx":         {activitiestest.Break{At: activitiestest.AtRcpt, Code: 450}, "", 1},
		"RCPT 5xx":         {activitiestest.Break{At: activitiestest.AtRcpt, Code: 550}, effect.Refused, 0},
		"RCPT cut":         {activitiestest.Break{At: activitiestest.AtRcpt}, "", 1},
		"RCPT hangs":       {activitiestest.Break{At: activitiestest.AtRcpt, Hang: true}, "", 1},
		"dot 4xx":          {activitiestest.Break{At: activitiestest.AtDot, Code: 451}, "", 1},
		"dot 5xx":          {activitiestest.Break{At: activitiestest.AtDot, Code: 554}, effect.Refused, 0},
		"dot cut, taken":   {activitiestest.Break{At: activitiestest.AtDot, Keep: true}, effect.Uncertain, 1},
		"dot cut, lost":    {activitiestest.Break{At: activitiestest.AtDot}, effect.Uncertain, 0},
		"dot unanswered":   {activitiestest.Break{At: activitiestest.AtDot, Keep: true, Hang: true}, effect.Uncertain, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			box := activitiestest.NewMailbox(t, false)
			box.Next(tt.cue)
			m := b.mail(box, false)
			b.told("ada@example.com")
			in := letterAbout("receipt")
			if tt.state == "" {
				_, err := do(b, m.SendLetter, in)
				wantAgain(t, err)
				must(b, effect.Done, m.SendLetter, in)
			} else {
				must(b, tt.state, m.SendLetter, in)
				must(b, tt.state, m.SendLetter, in)
			}
			if got := len(box.Mails()); got != tt.mails {
				t.Errorf("%d mails, want %d", got, tt.mails)
			}
		})
	}
}

func TestSendLetter_NobodyListens_TriedAgain(t *testing.T) {
	b := setup(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := b.mail(&activitiestest.Mailbox{Address: listener.Addr().String()}, false)
	_ = listener.Close()
	b.told("ada@example.com")
	_, err = do(b, m.SendLetter, letterAbout("receipt"))
	wantAgain(t, err)
}

func TestSendLetter_Addresses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		email string
		state effect.State
	}{
		"none":              {"", effect.Skipped},
		"no address":        {"ada", effect.Skipped},
		"two":               {"ada@example.com, eve@example.com", effect.Skipped},
		"header injection":  {"ada@example.com\r\nBcc: eve@example.com", effect.Skipped},
		"bare line feed":    {"ada@example.com\nBcc: eve@example.com", effect.Skipped},
		"command injection": {"ada@example.com>\r\nRCPT TO:<eve@example.com", effect.Skipped},
		"in the name":       {"\"a\r\nBcc: eve@example.com\" <ada@example.com>", effect.Skipped},
		"parameters":        {"ada@example.com> NOTIFY=SUCCESS", effect.Skipped},
		"with a name":       {"Ada <ada@example.com>", effect.Skipped},
		"bare":              {"ada@example.com", effect.Done},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			box := activitiestest.NewMailbox(t, false)
			b.told(tt.email)
			result := must(b, tt.state, b.mail(box, false).SendLetter, letterAbout("receipt"))
			if strings.Contains(result.Reason, "example.com") {
				t.Errorf("reason %q holds the address", result.Reason)
			}
			mails := box.Mails()
			if tt.state != effect.Done {
				if len(mails) != 0 || box.Connections() != 0 {
					t.Errorf("%d mails over %d connections, want none", len(mails), box.Connections())
				}
				return
			}
			if len(mails) != 1 || !slices.Equal(mails[0].To, []string{"ada@example.com"}) || mails[0].Header("Bcc") != "" {
				t.Errorf("mails %+v, want one to ada", mails)
			}
		})
	}
}

// An e-mail is sent to the customer's address, whatever its subject is, even if no event's payload is stored.
func TestSendLetter_NoBodyHeld_Sent(t *testing.T) {
	b := setup(t)
	box := activitiestest.NewMailbox(t, false)
	m := b.mail(box, false)
	b.told("ada@example.com")
	b.exec(`delete from receipt_bodies`)
	in := letterAbout("correction")
	in.For.Object, in.For.Number = "sub_1", ""
	for i, customer := range []string{"", "cus_2"} {
		in.For.Customer, in.Effect.Key = customer, fmt.Sprintf("notice:stripe:live:%d", i)
		if got := must(b, effect.Skipped, m.SendLetter, in); !strings.HasPrefix(got.Reason, "no usable e-mail address") {
			t.Errorf("customer %q: %+v", customer, got)
		}
	}
	in.For.Customer, in.Effect.Key = "cus_1", "notice:stripe:live:last"
	must(b, effect.Done, m.SendLetter, in)
	mails := box.Mails()
	if len(mails) != 1 || !slices.Equal(mails[0].To, []string{"ada@example.com"}) || mails[0].Header("Subject") != "Correction: invoice sub_1" {
		t.Errorf("mails %+v, want one about the subscription, to the customer", mails)
	}
}

// Names from customers and other systems appear as plain text in an e-mail, and cannot add headers or lines.
func TestSendLetter_WhatComesFromOutside_IsText(t *testing.T) {
	b := setup(t)
	box := activitiestest.NewMailbox(t, false)
	m := b.mail(box, false)
	b.told("ada@example.com")
	const planted = schematest.Planted + "\r\nBcc: eve@example.com\n\nPay to eve"
	for _, template := range []string{"receipt", "correction", "dunning", "trial-ending", "order"} {
		in := letterAbout(template)
		in.For.Account, in.For.Number, in.For.Plan, in.For.Currency, in.For.Reason, in.For.Unpaid = planted, planted, planted, planted, planted, planted
		must(b, effect.Done, m.SendLetter, in)
	}
	mails := box.Mails()
	if len(mails) != 5 {
		t.Fatalf("%d mails", len(mails))
	}
	for _, mail := range mails {
		_, body, _ := strings.Cut(mail.Data, "\r\n\r\n")
		text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
		subject, failed := new(mime.WordDecoder).DecodeHeader(mail.Header("Subject"))
		if err != nil || failed != nil || mail.Header("Bcc") != "" || len(mail.To) != 1 {
			t.Errorf("%v, %v, to %v: %s", err, failed, mail.To, mail.Data)
		}
		for _, said := range []string{subject, strings.ReplaceAll(string(text), "\r\n", "\n")} {
			if strings.ContainsAny(said, schematest.HiddenIn) {
				t.Errorf("a hidden character: %q", said)
			}
			if strings.Contains(said, "\nBcc") || strings.Contains(said, "\nPay to eve") {
				t.Errorf("a line of others': %q", said)
			}
		}
	}
}
