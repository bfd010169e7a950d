package account

import (
	"cmp"
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/money"
)

// searched limits the objects of one amount and kind that are read, and mostOfAmount the result.
const (
	searched     = 500
	mostOfAmount = 50
)

// quotedAmount is an amount as people write it: "49", "49.00 USD", "EUR 1,049.90", "$ 49". decimalComma matches an
// amount with a decimal comma: "1.049,90 €".
var (
	quotedAmount = regexp.MustCompile(`^(?:([A-Za-z]{3})|(?:US)?([$€£¥]))? ?(\d{1,3}(?:,\d{3})+|\d{1,12})(?:\.(\d{1,3}))? ?(?:([A-Za-z]{3})|([$€£¥]))?$`)
	decimalComma = regexp.MustCompile(`\d,\d{2}[^\d.,]*$`)
)

// symbols maps symbols to currencies. Several currencies have the symbol $.
var symbols = map[string]string{"€": "eur", "£": "gbp", "¥": "jpy"}

// OfAmount returns the IDs of the newest invoices with a paid amount that people write, such as "49.00 USD", and of
// refunds, disputes and checkout sessions with this amount. An amount without a currency matches every currency.
// OfAmount returns nothing for 0 and for other words.
func OfAmount(ctx context.Context, db DB, words string) (objects []string, err error) {
	words = strings.TrimSpace(words)
	if decimalComma.MatchString(words) {
		words = strings.Replace(strings.ReplaceAll(words, ".", ""), ",", ".", 1)
	}
	parts := quotedAmount.FindStringSubmatch(words)
	if parts == nil || strings.Trim(parts[3]+parts[4], "0,") == "" {
		return nil, nil
	}
	whole, fraction := parts[3], parts[4]
	currency := strings.ToLower(cmp.Or(parts[1], parts[5], symbols[parts[2]], symbols[parts[6]]))
	type object struct {
		ID       string
		Amount   int64
		Currency string
	}
	found, err := schema.Rows(ctx, db, "read the objects of an amount", pgx.RowToStructByPos[object], amountSQL,
		[]int64{minor(whole, fraction, 0), minor(whole, fraction, 2), minor(whole, fraction, 3)}, searched)
	for _, i := range found {
		named := currency == "" || strings.EqualFold(currency, i.Currency)
		if named && i.Amount == minor(whole, fraction, money.Decimals(i.Currency)) && len(objects) < mostOfAmount {
			objects = append(objects, i.ID)
		}
	}
	return objects, err
}

// minor returns an amount in minor units of a currency with the given number of decimals, or -1 if the currency has no
// such amount.
func minor(whole, fraction string, decimals int) int64 {
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > decimals {
		return -1
	}
	fraction += strings.Repeat("0", decimals-len(fraction))
	amount, err := strconv.ParseInt(strings.ReplaceAll(whole, ",", "")+fraction, 10, 64)
	if err != nil {
		return -1
	}
	return amount
}
