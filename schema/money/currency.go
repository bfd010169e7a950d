// Package money formats amounts of money. Amounts are in the minor unit that Stripe uses for a currency.
package money

import "strings"

// currencies lists the currency codes of ISO 4217 as of 2025. golang.org/x/text/currency lacks the codes added since
// 2018, such as SLE and XCG, and contains XXX and XTS, which are not money.
const currencies = " aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd btn bwp byn bzd" +
	" cad cdf chf clp cny cop crc cuc cup cve czk djf dkk dop dzd egp ern etb eur fjd fkp gbp gel ghs gip gmd gnf gtq gyd" +
	" hkd hnl hrk htg huf idr ils inr iqd irr isk jmd jod jpy kes kgs khr kmf kpw krw kwd kyd kzt lak lbp lkr lrd lsl lyd" +
	" mad mdl mga mkd mmk mnt mop mro mru mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg" +
	" qar ron rsd rub rwf sar sbd scr sdg sek sgd shp sle sll sos srd ssp std stn svc syp szl thb tjs tmt tnd top try ttd" +
	" twd tzs uah ugx usd uyu uzs ved ves vnd vuv wst xaf xcd xcg xof xpf yer zar zmw zwg zwl "

// Known reports whether code is a currency of ISO 4217, in lower case as in Stripe's API. Some former currencies
// are included, because Stripe still has them.
func Known(code string) bool {
	return len(code) == 3 && strings.Contains(currencies, " "+code+" ")
}

// decimals lists the currencies with amounts that are not in hundredths (https://docs.stripe.com/currencies,
// "Zero-decimal currencies" and "Three-decimal currencies").
//
// ISK and UGX have no fractions but are two-decimal amounts: according to "Special cases" on that page, 5 UGX is an
// amount of 500. CLDR's table is not usable, because it defines the display of a currency: it has no decimals for
// IDR, COP and others that Stripe counts in hundredths.
var decimals = map[string]int{
	"bif": 0, "clp": 0, "djf": 0, "gnf": 0, "jpy": 0, "kmf": 0, "krw": 0, "mga": 0,
	"pyg": 0, "rwf": 0, "vnd": 0, "vuv": 0, "xaf": 0, "xof": 0, "xpf": 0,

	"bhd": 3, "jod": 3, "kwd": 3, "omr": 3, "tnd": 3,
}

// Decimals returns the number of decimals of an amount in Stripe's minor unit: 1000 is 10.00 usd, 1000 jpy and 1.000
// kwd. The code is case-insensitive. An unknown currency has two decimals.
func Decimals(currency string) int {
	if n, ok := decimals[strings.ToLower(currency)]; ok {
		return n
	}
	return 2
}
