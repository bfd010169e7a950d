package billing

import "github.com/pawlhq/pawl/schema/billing/fold"

// News implements [Object].

func (a *applying) newsOfAccess(after fold.Access) []fold.News {
	t := after.Target
	if t.Version == a.accounts[after.Account].Version {
		return nil
	}
	data := t.News(a.subject.Mode, after.Account, a.subject.EventID)
	if a.how == repairing {
		data.Cause = a.key
	}
	return []fold.News{{Account: after.Account, Kind: "access.changed", Data: data}}
}
