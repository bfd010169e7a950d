package stripe

import "strings"

// decimals lists the currencies whose amounts Stripe does not count in hundredths
// (https://docs.stripe.com/currencies, "Zero-decimal currencies" and "Three-decimal currencies").
//
// ISK and UGX have no fractions and are two-decimal amounts all the same: the page's "Special cases"
// say "to charge 5 UGX, provide an amount value of 500". CLDR's table does not serve, since it says how
// a currency is shown: it has no decimals for IDR, COP and others that Stripe counts in hundredths.
var decimals = map[string]int{
	"bif": 0, "clp": 0, "djf": 0, "gnf": 0, "jpy": 0, "kmf": 0, "krw": 0, "mga": 0,
	"pyg": 0, "rwf": 0, "vnd": 0, "vuv": 0, "xaf": 0, "xof": 0, "xpf": 0,

	"bhd": 3, "jod": 3, "kwd": 3, "omr": 3, "tnd": 3,
}

// Decimals returns how many decimals an amount in Stripe's minor unit of a currency has: 1000 is
// 10.00 usd, 1000 jpy and 1.000 kwd. The code may be in either case; one that is not known has two.
func Decimals(currency string) int {
	if n, ok := decimals[strings.ToLower(currency)]; ok {
		return n
	}
	return 2
}
