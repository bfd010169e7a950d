package stripe

import "strings"

// currencies are the codes of ISO 4217 that money is counted in, as of 2025. The package golang.org/x/text/currency
// lacks those made since 2018, such as SLE and XCG, and takes XXX and XTS, which are no money.
const currencies = " aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd btn bwp byn bzd" +
	" cad cdf chf clp cny cop crc cuc cup cve czk djf dkk dop dzd egp ern etb eur fjd fkp gbp gel ghs gip gmd gnf gtq gyd" +
	" hkd hnl hrk htg huf idr ils inr iqd irr isk jmd jod jpy kes kgs khr kmf kpw krw kwd kyd kzt lak lbp lkr lrd lsl lyd" +
	" mad mdl mga mkd mmk mnt mop mro mru mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg" +
	" qar ron rsd rub rwf sar sbd scr sdg sek sgd shp sle sll sos srd ssp std stn svc syp szl thb tjs tmt tnd top try ttd" +
	" twd tzs uah ugx usd uyu uzs ved ves vnd vuv wst xaf xcd xcg xof xpf yer zar zmw zwg zwl "

// IsCurrency reports whether code is a currency of ISO 4217, in lower case as Stripe writes it. Some that are no
// longer in use count, since Stripe has kept a few of them.
func IsCurrency(code string) bool {
	return len(code) == 3 && strings.Contains(currencies, " "+code+" ")
}

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

// Minor returns whole units of a currency in Stripe's minor unit: 10 usd are 1000.
func Minor(units int64, currency string) int64 {
	for range Decimals(currency) {
		units *= 10
	}
	return units
}
