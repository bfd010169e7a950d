package billing

import (
	"strconv"
	"strings"
)

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{
	"account":              accountSQL,
	"lock customer":        lockCustomerSQL,
	"lock account":         lockAccountSQL,
	"append fact":          appendFactSQL,
	"facts":                factsSQL,
	"facts of receipt":     factsOfReceiptSQL,
	"newest invoice":       newestInvoiceSQL,
	"subscription":         subscriptionSQL,
	"invoice":              invoiceSQL,
	"grants":               grantsSQL,
	"write subscription":   writeSubscriptionSQL,
	"write invoice":        writeInvoiceSQL,
	"move invoices":        moveSQL("invoices", "subscription"),
	"give":                 giveSQL,
	"take":                 takeSQL,
	"write target":         writeTargetSQL,
	"enable features":      enableFeaturesSQL,
	"disable features":     disableFeaturesSQL,
	"forget due":           forgetDueSQL,
	"move due":             moveDueSQL,
	"await":                awaitSQL,
	"take due":             takeDueSQL,
	"holds":                holdsSQL,
	"unclaimed":            unclaimedSQL,
	"hold":                 holdSQL,
	"over":                 overSQL,
	"open task":            openTaskSQL,
	"close task":           closeTaskSQL,
	"end tasks":            endTasksSQL,
	"workspace":            workspaceSQL,
	"finance entry":        financeEntrySQL,
	"objects":              objectsSQL,
	"objects of account":   objectsOfAccountSQL,
	"fact of each":         factOfEachSQL,
	"objects of customers": objectsOfCustomersSQL,
	"objects about":        objectsAboutSQL,
	"take unknown":         takeUnknownSQL,
	"last fact":            lastFactSQL,
	"lock payment":         lockPaymentSQL,
	"lock invoice":         lockInvoiceSQL,
	"lock family":          lockFamilySQL,
	"facts of family":      factsOfFamilySQL,
	"held":                 heldSQL,
	"held of family":       heldOfFamilySQL,
	"held of customer":     heldOfCustomerSQL,
	"write payment":        writePaymentSQL,
	"write refund":         writeRefundSQL,
	"write dispute":        writeDisputeSQL,
	"write warning":        writeWarningSQL,
	"write credit":         writeCreditSQL,
	"write checkout":       writeCheckoutSQL,
	"move payments":        moveSQL("payments", "subscription"),
	"move refunds":         moveSQL("refunds", "invoice"),
	"move an invoice":      moveSQL("invoices", "id"),
	"settle task":          settleTaskSQL,
}

// upsert writes a row of an object, whose mode and ID are $1 and $2, with columns as $3 and on, in the place of the one
// that is there.
func upsert(table string, columns ...string) string {
	values, sets := "$1, $2", ""
	for n, column := range columns {
		values += ", $" + strconv.Itoa(n+3)
		sets += column + " = excluded." + column + ", "
	}
	return "insert into " + table + " (mode, id, " + strings.Join(columns, ", ") + ") values (" + values + ")" +
		" on conflict (mode, id) do update set " + sets + "updated_at = now()"
}
