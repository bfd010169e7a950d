package tables

import (
	"regexp"
	"strings"

	"github.com/pawlhq/pawl/schema/money"
)

// longAmount matches an amount of at least 1000 with its currency.
var longAmount = regexp.MustCompile(`\b(\d{4,})(\.\d{1,3})? ([A-Z]{3})\b`)

// GroupMoney adds thousands separators to the amounts of money in a text: "4800.00 USD" becomes "4,800.00 USD".
func GroupMoney(text string) string {
	return longAmount.ReplaceAllStringFunc(text, func(amount string) string {
		parts := longAmount.FindStringSubmatch(amount)
		if !money.Known(strings.ToLower(parts[3])) {
			return amount
		}
		digits := parts[1]
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits + parts[2] + " " + parts[3]
	})
}

// signed formats an amount with its sign. Incoming money has a plus sign.
func signed(amount int64, currency string) string {
	text := money.Format(amount, currency)
	if amount > 0 {
		return "+" + text
	}
	return strings.Replace(text, "-", "−", 1)
}
