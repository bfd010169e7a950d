package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/schema/account"
)

// ShowAccount returns everything about the account that id names, as [account.Find] takes it. mode may be "" if one
// account has that name.
func ShowAccount(ctx context.Context, db account.DB, id, mode string) (*account.Account, error) {
	name, err := findAccount(ctx, db, id, mode)
	if err != nil {
		return nil, err
	}
	return account.Show(ctx, db, *name)
}

// findAccount returns the one account that id names.
func findAccount(ctx context.Context, db account.DB, id, mode string) (*account.Name, error) {
	names, err := account.Find(ctx, db, id, mode)
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, unknownAccount(id, mode)
	case len(names) == 1:
		return &names[0], nil
	}
	list := make([]string, len(names))
	for i, a := range names {
		list[i] = fmt.Sprintf("%s --mode %s", a.ID, a.Mode)
	}
	return nil, ambiguous(id, "%q names %d accounts; write one of: %s", id, len(list), strings.Join(list, ", "))
}

// unknownAccount says that no account has the ID, under any of its names.
func unknownAccount(id, mode string) error {
	in := ""
	if mode != "" {
		in = " in mode " + mode
	}
	return unknown(id, "no account %q%s: it is no account of ours, and no customer, subscription, invoice, payment or e-mail address of one", id, in)
}
