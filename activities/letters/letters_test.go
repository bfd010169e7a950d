package letters_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
)

var content = letters.Content{
	Account: "acme", Number: "A-1", Plan: "pro", Amount: "49.00 USD", Quantity: 3, URL: "https://invoice.example/1", EndsAt: time.Date(2026, 4, 9, 0, 0, 0, 0, time.UTC),
	PeriodEnd: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC), OccurredAt: time.Date(2026, 3, 1, 0, 1, 0, 0, time.UTC),
}

func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWrite_BuiltIn(t *testing.T) {
	t.Parallel()
	set, err := letters.Load("", letters.English, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]string{
		letters.Receipt:             {"Receipt for invoice A-1", "Thank you.\n\nWe have received 49.00 USD for invoice A-1.\nPlan: pro\nPaid until: 1 April 2026\n"},
		letters.Correction:          {"Correction: invoice A-1", "We have received 49.00 USD for invoice A-1, but could not provide the plan pro.\nWe will contact you about the payment.\n"},
		letters.Order:               {"Your order", "Thank you.\n\nWe have received 49.00 USD for your order.\nPlan: pro\nUntil: 1 April 2026\n"},
		letters.OrderCorrection:     {"Correction: your order", "We have received 49.00 USD for your order, but could not provide the plan pro.\nWe will contact you about the payment.\n"},
		letters.ActionRequired:      {"Payment required: invoice A-1", "Your payment of 49.00 USD for invoice A-1 failed, or you still have to confirm it with your bank.\nPay or confirm it here: https://invoice.example/1\n"},
		letters.Dunning:             {"Reminder: invoice A-1 is not paid", "We have not received your payment of 49.00 USD for invoice A-1.\nPay it here: https://invoice.example/1\n"},
		letters.TrialEnding:         {"Your trial is about to end", "Your trial of the plan pro ends on 9 April 2026.\nYour subscription continues after the trial, and you will be charged from then on.\n"},
		letters.SubscriptionChanged: {"Your subscription has changed", "This is your subscription now.\nPlan: pro\nSeats: 3\nIt ends on 9 April 2026.\n"},
		letters.SubscriptionEnded:   {"Your subscription has ended", "Your subscription to the plan pro ended on 1 March 2026.\nYour workspace is suspended. No data is lost. You can subscribe again at any time.\n"},
	} {
		subject, text, err := set.Write(name, content)
		if err != nil || subject != want[0] || text != want[1] {
			t.Errorf("%s: %v\n got %q, %q\nwant %q, %q", name, err, subject, text, want[0], want[1])
		}
	}
}

// An e-mail contains the data of its customer.
func TestWrite_BuiltIn_ByCase(t *testing.T) {
	t.Parallel()
	set, err := letters.Load("", letters.English, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		letter string
		change func(*letters.Content)
		want   [2]string
	}{
		"overdue": {letters.ActionRequired, func(c *letters.Content) { c.DueAt = c.PeriodEnd },
			[2]string{"Payment required: invoice A-1", "Invoice A-1 was due on 1 April 2026, and 49.00 USD is still unpaid.\nPay it here: https://invoice.example/1\n"}},
		"a trial that is cancelled without a card": {letters.TrialEnding, func(c *letters.Content) { c.Unpaid = "cancel" },
			[2]string{"Your trial is about to end: add a payment method", "Your trial of the plan pro ends on 9 April 2026.\nAdd a payment method before that day if you have not done so yet. Without one, your subscription ends with the trial.\nWith one, it continues, and you will be charged from then on.\n"}},
		"a trial that is paused without a card": {letters.TrialEnding, func(c *letters.Content) { c.Unpaid = "pause" },
			[2]string{"Your trial is about to end: add a payment method", "Your trial of the plan pro ends on 9 April 2026.\nAdd a payment method before that day if you have not done so yet. Without one, your subscription is paused at the end of\nthe trial, and you lose access. With one, it continues, and you will be charged from then on.\n"}},
		"access ends with the grace": {letters.AccessEnding, func(c *letters.Content) { c.Reason = "unpaid" },
			[2]string{"Your access ends on 9 April 2026", "We have not received the payment for your subscription to the plan pro.\nIf it is not paid by 9 April 2026, your workspace will be suspended on that day. No data is lost.\n"}},
		"access ends with what was paid for": {letters.AccessEnding, func(c *letters.Content) { c.Reason = "ended" },
			[2]string{"Your access ends on 9 April 2026", "Your subscription to the plan pro ended on 1 March 2026.\nYou have access until 9 April 2026, because you have paid until then.\n"}},
		"the grace is over": {letters.AccessEnded, func(c *letters.Content) { c.Reason = "unpaid" },
			[2]string{"Your access has ended", "We have not received the payment for your subscription to the plan pro. You will have access again once it is paid.\nYour workspace is suspended. No data is lost.\n"}},
		"paused without a card": {letters.AccessEnded, func(c *letters.Content) { c.Reason, c.Unpaid = "paused", "pause" },
			[2]string{"Your access has ended", "Your subscription to the plan pro is paused because it has no payment method. Add one to continue.\nYour workspace is suspended. No data is lost.\n"}},
	} {
		c := content
		tt.change(&c)
		subject, text, err := set.Write(tt.letter, c)
		if err != nil || subject != tt.want[0] || text != tt.want[1] {
			t.Errorf("%s: %v\n got %q, %q\nwant %q", name, err, subject, text, tt.want)
		}
	}
}

func TestLoad_OwnTemplate_BeforeTheBuiltIn(t *testing.T) {
	t.Parallel()
	dir := directory(t, map[string]string{
		"receipt.de.txt": "Beleg {{.Number}}\r\n\r\nDanke für {{.Amount}}.\r\n", "correction.de.txt": "Korrektur\n\nzu {{.Number}}", "receipt.en.txt": "English",
	})
	set, err := letters.Load(dir, "de", []string{letters.Order, letters.OrderCorrection, letters.ActionRequired, letters.Dunning, letters.TrialEnding, letters.SubscriptionChanged, letters.SubscriptionEnded, letters.AccessEnding, letters.AccessEnded})
	if err != nil {
		t.Fatal(err)
	}
	if subject, text, err := set.Write(letters.Receipt, content); err != nil || subject != "Beleg A-1" || text != "Danke für 49.00 USD.\n" {
		t.Errorf("got %q, %q, %v", subject, text, err)
	}
	if !set.Off(letters.SubscriptionEnded) || set.Off(letters.Receipt) {
		t.Error("want the letter about the end to be off, and no other")
	}
}

// An invalid template is reported when the process starts, before the first e-mail is sent.
func TestLoad_EverythingWrong_ToldAtOnce(t *testing.T) {
	t.Parallel()
	dir := directory(t, map[string]string{
		"receipt.de.txt": "Beleg\n\n{{.Amuont}}", "correction.de.txt": "{{if .Plan}}no end", "reciept.de.txt": "Beleg\n\nText", "notes.md": "not a letter",
	})
	_, err := letters.Load(dir, "de", []string{letters.Order, letters.OrderCorrection, letters.ActionRequired, letters.Dunning, letters.TrialEnding, letters.SubscriptionChanged, letters.AccessEnding, letters.AccessEnded})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Amuont", "correction.de.txt", "reciept.de.txt is not an e-mail template", "subscription-ended.de.txt is missing"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %s:\n%v", want, err)
		}
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 4 {
		t.Errorf("%d lines, want one for each:\n%v", lines, err)
	}
	for name, text := range map[string]string{"no text": "Subject only\n", "no subject": "\nText\n"} {
		dir := directory(t, map[string]string{"receipt.en.txt": text})
		if _, err := letters.Load(dir, letters.English, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := letters.Load(filepath.Join(dir, "nowhere"), letters.English, nil); err == nil {
		t.Error("a directory that is not there: no error")
	}
}

func TestLine_WordsStay_HiddenCharactersDoNot(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", // Persian
		"\u0915\u094d\u200d\u0937":                         "\u0915\u094d\u200d\u0937",                         // Hindi, after a mark
		"a\u200c\u200db":                                   "a\ufffd\ufffdb",
		"\u200cab\u200d":                                   "\ufffdab\ufffd",
		"1\u200c2 \u200c":                                  "1\ufffd2 \ufffd",
		"a\u200bb\u202ec\u2066d\ufeffe\u00adf":             "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf",
		"one\ntwo\u2028three\u00a0four\xff":                "one two three four\ufffd",
	} {
		if got := letters.Line(text); got != want {
			t.Errorf("%+q reads as %+q, want %+q", text, got, want)
		}
	}
}
