package tables_test

import (
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/tables"
)

func TestGroupMoney(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"4800.00 USD":                     "4,800.00 USD",
		"-1234567.89 EUR and 1000 JPY":    "-1,234,567.89 EUR and 1,000 JPY",
		"999.00 USD":                      "999.00 USD",
		"since 2026-11-28 10:57 UTC":      "since 2026-11-28 10:57 UTC",
		"2026 UTC":                        "2026 UTC",
		"12345 minor units of XXX":        "12345 minor units of XXX",
		"books 4800.00 USD, 49.00 USD":    "books 4,800.00 USD, 49.00 USD",
		"invoice F-123456 of 4800.00 USD": "invoice F-123456 of 4,800.00 USD",
	} {
		if got := tables.GroupMoney(text); got != want {
			t.Errorf("GroupMoney(%q) = %q, want %q", text, got, want)
		}
	}
}
