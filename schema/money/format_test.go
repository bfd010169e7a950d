package money

import (
	"math"
	"testing"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		amount int64
		code   string
		want   string
	}{
		{0, "usd", "0.00 USD"}, {1, "usd", "0.01 USD"}, {99, "eur", "0.99 EUR"}, {100, "usd", "1.00 USD"}, {4900, "usd", "49.00 USD"},
		{-1, "usd", "-0.01 USD"}, {-4905, "gbp", "-49.05 GBP"}, {123456789, "chf", "1234567.89 CHF"},
		{1000, "jpy", "1000 JPY"}, {0, "krw", "0 KRW"}, {-7, "jpy", "-7 JPY"},
		{1234, "kwd", "1.234 KWD"}, {5, "bhd", "0.005 BHD"},
		{9900000, "idr", "99000.00 IDR"}, {250000, "cop", "2500.00 COP"}, {500, "ugx", "5.00 UGX"}, {500, "isk", "5.00 ISK"},
		{500, "mga", "500 MGA"}, {500, "clp", "500 CLP"}, {1000, "JPY", "1000 JPY"}, {-1234, "tnd", "-1.234 TND"},
		{100, "xyz", "100 minor units of XYZ"}, {100, "", "1.00 "},
		{math.MaxInt64, "usd", "92233720368547758.07 USD"}, {math.MinInt64, "usd", "-92233720368547758.08 USD"},
	} {
		if got := Format(tt.amount, tt.code); got != tt.want {
			t.Errorf("Format(%d, %q) is %q, want %q", tt.amount, tt.code, got, tt.want)
		}
	}
}
