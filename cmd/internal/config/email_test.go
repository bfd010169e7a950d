package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
	"github.com/pawlhq/pawl/cmd/internal/config"
)

// The template directory is relative to the configuration file.
func TestLoad_Email(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "letters"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"pawl.yaml":              noSinks + "email: {templates: letters, language: de, disabled: [order, order-correction, action-required, dunning, trial-ending, subscription-changed, subscription-ended, access-ending, access-ended]}\n",
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
	if subject, _, err := cfg.Email.Set.Write(letters.Receipt, letters.Content{}); err != nil || subject != "Beleg" {
		t.Errorf("the receipt's subject is %q, %v", subject, err)
	}
	if cfg.Email.Delay != time.Minute {
		t.Errorf("e-mails wait %s, want a minute by default", cfg.Email.Delay)
	}
	if !cfg.Email.Set.Off(letters.SubscriptionEnded) || cfg.Email.Set.Off(letters.Receipt) {
		t.Error("want the disabled e-mails to be off, and no other")
	}
}

func TestLoad_Email_Faults(t *testing.T) {
	t.Parallel()
	wantFaults(t, faultsOf(t, noSinks+"email: {language: de, disabled: [invoice, correction]}\n"), map[string]string{
		"email.disabled[0]": "is not an e-mail",
		"email.templates":   "subscription-ended.de.txt is missing",
	})
}
