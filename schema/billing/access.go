package billing

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// account returns the account of the change. others are the accounts that a granting object has left or joined.
func (a *applying) account() (account string, others []string) {
	if a.holds != "" {
		return a.holds, nil
	}
	found := false
	for _, k := range []fold.Kind{fold.KindSubscription, fold.KindInvoice, fold.KindCheckout, fold.KindPayment,
		fold.KindCredit} {
		if o := a.now[fold.Key{Kind: k, ID: a.about[k]}]; o != nil && a.folded[fold.KeyOf(o)] && !found {
			account, found = o.Reference().Account, true
		}
	}
	if !found {
		with := fold.Related{Facts: a.known, Objects: a.now, Policy: a.policy}
		account = with.AccountOf("", a.subject.Customer)
	}
	for _, o := range a.touched() {
		switch o.Kind() {
		case fold.KindSubscription, fold.KindInvoice, fold.KindCheckout:
			others = append(others, o.Reference().Account)
			if was := a.before[fold.KeyOf(o)]; was != nil {
				others = append(others, was.Reference().Account)
			}
		}
	}
	return account, fact.Unique(slices.DeleteFunc(others, func(id string) bool { return id == "" || id == account }))
}

// access locks the accounts, reads their stored grants, and computes their access with the new grants of the objects.
func (a *applying) access(ctx context.Context) error {
	account, others := a.account()
	b := &pgx.Batch{}
	a.accounts, a.granted, a.gives = map[string]accountRow{}, map[string][]fold.Grant{}, map[string][]fold.Grant{}
	for _, id := range fact.Unique(append(slices.Clone(others), account)) {
		customer := ""
		if id == account {
			customer = a.subject.Customer
		}
		if id != "" {
			a.lockAccount(b, id, customer)
		}
	}
	a.readHolds(b)
	if err := a.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if a.at.IsZero() || a.settles {
		for _, row := range a.accounts {
			a.at = fold.Latest(a.at, row.Now.UTC())
		}
	}
	touched := a.touched()
	now := func(id string) fold.Access {
		a.gives[id] = fold.GrantsOf(touched, id)
		kept := slices.DeleteFunc(slices.Clone(a.granted[id]), func(g fold.Grant) bool {
			return slices.ContainsFunc(touched, func(o fold.Object) bool { return o.Reference().ID == g.Object })
		})
		return a.target(id, append(kept, a.gives[id]...))
	}
	a.change.Before.Access, a.change.After.Access = a.accessOf(account, a.granted[account]), now(account)
	for _, id := range others {
		a.change.Others = append(a.change.Others, now(id))
	}
	return nil
}

func (a *applying) lockAccount(b *pgx.Batch, id, customer string) {
	b.Queue(lockAccountSQL, a.subject.Mode, id, a.subject.Provider, customer).Query(func(rows pgx.Rows) error {
		row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[accountRow])
		a.accounts[id] = row
		return err
	})
	b.Queue(grantsSQL, a.subject.Mode, id).Query(func(rows pgx.Rows) error {
		grants, err := pgx.CollectRows(rows, scanGrant)
		a.granted[id] = grants
		a.change.Rows += len(grants)
		return err
	})
}

// readHolds computes the holds on an account from its facts if the applied facts hold or release the account. The
// caller has locked the account, so that readHolds reads the facts of every decision that was committed before.
func (a *applying) readHolds(b *pgx.Batch) {
	if a.holds == "" {
		return
	}
	b.Queue(holdsSQL, a.subject.Mode, a.holds).Query(func(rows pgx.Rows) error {
		facts, err := pgx.CollectRows(rows, ScanFact)
		row := a.accounts[a.holds]
		row.Held = fact.OnHold(facts)
		a.accounts[a.holds] = row
		a.change.Rows += len(facts)
		return err
	})
}

func (a *applying) accessOf(account string, grants []fold.Grant) fold.Access {
	if account == "" {
		return fold.Access{}
	}
	fold.SortGrants(grants, a.policy)
	return fold.Access{Account: account, Grants: grants, Target: a.accounts[account].target()}
}

func (a *applying) target(account string, grants []fold.Grant) fold.Access {
	access := a.accessOf(account, grants)
	if account == "" {
		return access
	}
	if a.accounts[account].Held {
		access.Grants = nil
	}
	access.Target = fold.TargetOf(access.Grants, a.at, a.policy).After(access.Target)
	return access
}
