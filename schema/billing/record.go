package billing

import (
	"strings"

	"github.com/pawlhq/pawl/schema/ledger"
)

// OpenOnboardingTask is the statement that opens the task of an account and period; one that is open or
// done stays as it is. It runs in the commit that records the effect as done, after the record, and does
// nothing where the effect is not done.
func OpenOnboardingTask(f InvoicePaid, title, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: openTaskSQL, Args: []any{f.Mode, f.Account, f.PeriodStart, title, effectKey}}
}

// CancelOnboardingTask is the statement that cancels the task that the effect opened, if it is still open: what
// a person has done stays done, and so does what another invoice's effect opened, or has asked for, too. It runs
// like that of [OpenOnboardingTask].
func CancelOnboardingTask(f InvoicePaid, opened, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: cancelTaskSQL, Args: []any{f.Mode, f.Account, f.PeriodStart, opened, effectKey, strings.TrimSuffix(opened, ":"+f.Invoice)}}
}

// WorkspaceOf names the account's workspace: what only one effect at a time may touch.
func WorkspaceOf(f InvoicePaid) string { return "workspace:" + f.Mode + ":" + f.Account }

// RecordWorkspace is the statement that records the state which a workspace was brought to; it runs
// in the commit that ends the effect, after the record, and does nothing in any other.
func RecordWorkspace(f InvoicePaid, plan, state, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: workspaceSQL, Args: []any{f.Mode, f.Account, plan, state, effectKey}}
}

// RecordFinanceEntry is the statement that records an entry which finance has taken; it runs in the
// commit that ends the effect.
func RecordFinanceEntry(f InvoicePaid, kind, reference, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: financeEntrySQL, Args: []any{effectKey, f.Mode, f.Account, f.Invoice, kind, f.Amount, f.Currency, reference}}
}
