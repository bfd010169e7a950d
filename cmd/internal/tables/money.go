package tables

import (
	"cmp"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/money"
)

// moneyOf returns an amount in minor units as a cell.
func moneyOf(amount int64, currency string) output.Money {
	number, unit, _ := strings.Cut(money.Format(amount, currency), " ")
	return output.Money{Number: number, Currency: unit}
}

// Entries lists finance entries.
func Entries(entries []account.ListedEntry) output.Table {
	return output.Rows("DATE|WHAT|ACCOUNT|INVOICE|AMOUNT|MONEY MOVED|FEE|NET|PAID|NOTE|EVENT|BY", entries,
		func(e account.ListedEntry) []any {
			var fee, net output.Money
			if s := e.Settlement; s != nil {
				fee, net = moneyOf(s.Fee, s.Currency), moneyOf(s.Net, s.Currency)
			}
			invoice := objectLink(cmp.Or(e.Number, e.Invoice, e.Object))
			return []any{&e.OccurredAt, movementWords(e.Kind, e.Amount), accountLink(e.Account, e.Mode), invoice,
				moneyOf(e.Signed(), e.Currency), moneyOf(e.Cash, e.Currency), fee, net, methodWords[e.Method],
				cmp.Or(e.Reason, unsettledWords[e.SettlementUnknown]), eventLink(e.Event), e.Actor}
		})
}

// movementWords describes the kind of an entry.
func movementWords(kind string, amount int64) string {
	switch kind {
	case "payment":
		return "payment"
	case "refund":
		return "refund to the customer"
	case "refund_reversal":
		return "refund failed, money is back"
	case "credit":
		return "credit note"
	case "credit_reversal":
		return "credit note cancelled"
	case "reversal":
		return "sale cancelled, not refunded yet"
	case "correction":
		return "correction by a person"
	case "dispute":
		if amount < 0 {
			return "dispute: bank took the money"
		}
		return "dispute: money is back"
	}
	return strings.ReplaceAll(kind, "_", " ")
}

// methodWords describes how the money moved.
var methodWords = map[string]string{
	"charge": "through the provider", "out_of_band": "outside of the provider",
	"balance": "from the customer's balance", "unknown": "unknown",
}

// unsettledWords describes why the fee of an entry is unknown.
var unsettledWords = map[string]string{
	"not_reported":  "fee unknown: the provider did not report it in time",
	"not_permitted": "fee unknown: the API key may not read it",
	"no_payment":    "fee unknown: no payment was found",
	"not_certain":   "fee unknown: the payments do not match the amount",
}

// EntrySums lists the totals of finance entries. Without a known fee, the fees and the net amount are empty.
func EntrySums(sums []account.EntrySum) output.Table {
	return output.Rows("DAY (UTC)|CURRENCY|ENTRIES|RECEIVED|PAID OUT|TOTAL|FEES|NET AFTER FEES|FEE UNKNOWN", sums,
		func(s account.EntrySum) []any {
			amount := func(of int64) output.Money { return moneyOf(of, s.Currency) }
			var fee, net output.Money
			if s.Fee != 0 || s.Net != 0 || s.WithoutSettlement == 0 {
				fee, net = amount(s.Fee), amount(s.Net)
			}
			return []any{s.Day.UTC().Format(time.DateOnly), strings.ToUpper(s.Currency), s.Entries, amount(s.Received),
				amount(s.PaidOut), amount(s.Cash), fee, net, s.WithoutSettlement}
		})
}

// SkippedEntries lists finance entries that a person skipped.
func SkippedEntries(entries []account.SkippedEntry) output.Table {
	return output.Rows("DATE|WHAT|ACCOUNT|INVOICE|NOT BOOKED|MONEY MOVED|BY|REASON|SKIPPED|NOTE|EVENT", entries,
		func(e account.SkippedEntry) []any {
			note := ""
			if e.PerhapsBooked {
				note = "perhaps booked: an attempt had no answer, so check finance first"
			}
			return []any{&e.OccurredAt, movementWords(e.Kind, e.Amount), accountLink(e.Account, e.Mode),
				objectLink(cmp.Or(e.Number, e.Invoice, e.Object)), moneyOf(e.Signed(), e.Currency),
				moneyOf(e.Cash, e.Currency), e.Actor, e.Reason, &e.SkippedAt, note,
				eventLink(e.Event)}
		})
}

// SkippedSums lists the totals of skipped entries.
func SkippedSums(sums []account.SkippedSum) output.Table {
	return output.Rows("CURRENCY|SKIPPED ENTRIES|NOT BOOKED|MONEY MOVED|PERHAPS BOOKED", sums,
		func(s account.SkippedSum) []any {
			return []any{strings.ToUpper(s.Currency), s.Entries, moneyOf(s.Amount, s.Currency),
				moneyOf(s.Cash, s.Currency), moneyOf(s.PerhapsBooked, s.Currency)}
		})
}
