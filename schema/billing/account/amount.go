package account

import (
	"context"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/money"
)

// mostOfAmount limits the invoices with one amount.
const mostOfAmount = 50

// quotedAmount is an amount as people write it: "49", "49.00 USD", "EUR 1,049.90", "$49".
var quotedAmount = regexp.MustCompile(`^(?:([A-Za-z]{3}) ?|[$€£¥])?(\d{1,3}(?:,\d{3})+|\d{1,12})(?:\.(\d{1,3}))?(?: ?([A-Za-z]{3})|[$€£¥])?$`)

// OfAmount returns the IDs of the newest invoices with a paid amount that people write, such as "49.00 USD". An amount
// without a currency matches every currency. OfAmount returns nothing for other words.
func OfAmount(ctx context.Context, db DB, words string) (invoices []string, err error) {
	parts := quotedAmount.FindStringSubmatch(strings.TrimSpace(words))
	if parts == nil {
		return nil, nil
	}
	currency := strings.ToLower(parts[1] + parts[4])
	type invoice struct {
		ID       string
		Amount   int64
		Currency string
	}
	found, err := schema.Rows(ctx, db, "read the invoices of an amount", pgx.RowToStructByPos[invoice], amountSQL,
		[]int64{minor(parts[2], parts[3], 0), minor(parts[2], parts[3], 2), minor(parts[2], parts[3], 3)}, mostOfAmount)
	for _, i := range found {
		named := currency == "" || strings.EqualFold(currency, i.Currency)
		if named && i.Amount == minor(parts[2], parts[3], money.Decimals(i.Currency)) {
			invoices = append(invoices, i.ID)
		}
	}
	return invoices, err
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
	if err != nil || amount == math.MaxInt64 {
		return -1
	}
	return amount
}
