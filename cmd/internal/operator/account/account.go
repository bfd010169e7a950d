// Package account implements what operators read and decide about accounts and customers: access, holds, the comparison
// with the provider, and personal data.
package account

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/obstacle"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// Show returns all data of the account that id names; [account.Find] lists the accepted names. mode may be "" if only
// one account has this name.
func Show(ctx context.Context, db account.DB, id, mode string) (*account.Account, error) {
	name, err := find(ctx, db, id, mode)
	if err != nil {
		return nil, err
	}
	acc, err := account.Show(ctx, db, name)
	if err == nil {
		obstacle.Explain(acc, decide.ShellWord)
	}
	return acc, err
}

// find returns the one account that id names.
func find(ctx context.Context, db account.DB, id, mode string) (account.Name, error) {
	names, err := account.Find(ctx, db, id, mode)
	list := make([]string, len(names))
	for i, a := range names {
		list[i] = fmt.Sprintf("%s --mode %s", a.ID, a.Mode)
	}
	return decide.Only(id, names, err, NotFound(id, mode),
		fmt.Sprintf("matches %d accounts; write one of: %s", len(list), strings.Join(list, ", ")))
}

// NotFound returns the message that no account has the ID or another name id.
func NotFound(id, mode string) string {
	in := ""
	if mode != "" {
		in = " in mode " + mode
	}
	return fmt.Sprintf("no account %q%s: no account has this ID, or this customer, subscription, invoice, payment or e-mail address", id, in)
}

// ShowInvoice returns the invoice with the provider's ID or the invoice number id. mode may be "" if only one invoice
// has this ID or number.
func ShowInvoice(ctx context.Context, db account.DB, id, mode string) (account.ShownInvoice, error) {
	found, err := account.FindInvoices(ctx, db, id, mode)
	return decide.Only(id, found, err, fmt.Sprintf("no invoice %q: no event contains that ID or number", id),
		fmt.Sprintf("matches %d invoices: write the ID of one, or add --mode live or --mode test", len(found)))
}
