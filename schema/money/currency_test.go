package money

import (
	"strings"
	"testing"
)

func TestDecimals(t *testing.T) {
	t.Parallel()
	for want, currencies := range map[int]string{
		0: "bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf JPY",
		// Currencies that CLDR displays without decimals, and Stripe's special cases.
		2: "usd eur gbp idr cop pkr rsd tzs afn all lak lbp mmk sos yer uzs amd huf twd isk ugx UGX xyz",
		3: "bhd jod kwd omr tnd KWD",
	} {
		for _, currency := range strings.Fields(currencies) {
			if got := Decimals(currency); got != want {
				t.Errorf("%s has %d decimals, want %d", currency, got, want)
			}
		}
	}
	if got := Decimals(""); got != 2 {
		t.Errorf("no currency has %d decimals, want 2", got)
	}
}

func TestKnown(t *testing.T) {
	t.Parallel()
	for code := range decimals {
		if !Known(code) {
			t.Errorf("%s has decimals and is no currency", code)
		}
	}
	for _, code := range []string{"usd", "eur", "aed", "zwl", "sle", "xcg", "mru"} {
		if !Known(code) {
			t.Errorf("%s is no currency", code)
		}
	}
	for _, code := range []string{"", "zzz", "USD", "us", "usdc", "xxx", "xts", "xau", "d a", "   ", "sd ", "\x00\x00\x00"} {
		if Known(code) {
			t.Errorf("%q is a currency", code)
		}
	}
}
