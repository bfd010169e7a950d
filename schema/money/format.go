package money

import (
	"strconv"
	"strings"
)

// Format formats an amount in minor units for people: 1000 usd is "10.00 USD", 1000 jpy "1000 JPY". [Decimals] defines
// the minor unit. For an unknown currency it prints the minor units.
func Format(amount int64, code string) string {
	if code != "" && !Known(strings.ToLower(code)) {
		return strconv.FormatInt(amount, 10) + " minor units of " + strings.ToUpper(code)
	}
	scale := Decimals(code)
	sign := ""
	digits, negative := strings.CutPrefix(strconv.FormatInt(amount, 10), "-")
	if negative {
		sign = "-"
	}
	if scale > 0 {
		for len(digits) <= scale {
			digits = "0" + digits
		}
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	return sign + digits + " " + strings.ToUpper(code)
}
