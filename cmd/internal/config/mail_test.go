package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
	"github.com/pawlhq/pawl/cmd/internal/config"
)

// The directory of the letters stands beside the file, as everything that it names.
func TestLoad_Mail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "letters"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"pawl.yaml":              noSinks + "mail: {templates: letters, language: de, letters: {order: off, order-correction: off, action-required: off, dunning: off, trial-ending: off, subscription-changed: off, subscription-ended: off, access-ending: off, access-ended: off, receipt: on}}\n",
		"letters/receipt.de.txt": "Beleg\n\nDanke.\n", "letters/correction.de.txt": "Korrektur\n\nText\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "pawl.yaml"), environment, known)
	if err != nil {
		t.Fatal(err)
	}
	if subject, _, err := cfg.Mail.Set.Write(letters.Receipt, letters.Content{}); err != nil || subject != "Beleg" {
		t.Errorf("the receipt's subject is %q, %v", subject, err)
	}
	if cfg.Mail.Settle != time.Minute {
		t.Errorf("letters wait %s, want a minute where nothing is said", cfg.Mail.Settle)
	}
	if !cfg.Mail.Set.Off(letters.SubscriptionEnded) || cfg.Mail.Set.Off(letters.Receipt) {
		t.Error("want the letter about the end to be off, and no other")
	}
}

func TestLoad_Mail_Faults(t *testing.T) {
	t.Parallel()
	wantFaults(t, faultsOf(t, noSinks+"mail: {language: de, letters: {invoice: off, receipt: never, correction: off}}\n"), map[string]string{
		"mail.letters.invoice": "is not an e-mail",
		"mail.letters.receipt": "on or off",
		"mail.templates":       "subscription-ended.de.txt is missing",
	})
}
