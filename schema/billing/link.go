package billing

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Link says that a connected account is one of ours.
type Link struct {
	Mode      string `json:"mode"`
	Connected string `json:"connected_account"`
	Account   string `json:"account"`
	// Since is when it came into force, by Who and for Why.
	Since time.Time `json:"since"`
	Who   string    `json:"who"`
	Why   string    `json:"why"`
}

// WithLinks returns the policy with the connected accounts in force, of the modes whose accounts are linked. What it
// says of an account itself leads.
func (p Policy) WithLinks(ctx context.Context, db schema.Querier) (Policy, error) {
	if len(p.Linked) == 0 {
		return p, nil
	}
	inForce, err := InForce(ctx, db, p)
	if err != nil {
		return p, err
	}
	own := p.Accounts
	p.Accounts = map[Connected]string{}
	maps.Copy(p.Accounts, inForce.Accounts)
	maps.DeleteFunc(p.Accounts, func(of Connected, _ string) bool { return !slices.Contains(p.Linked, of.Mode) })
	maps.Copy(p.Accounts, own)
	return p.Sealed(), nil
}

// With returns the policy with a connected account that is linked to one of ours.
func (p Policy) With(of Connected, account string) Policy {
	accounts := map[Connected]string{}
	maps.Copy(accounts, p.Accounts)
	accounts[of] = account
	p.Accounts = accounts
	return p.Sealed()
}

// Links returns the connected accounts in force, with the switch that has brought each there.
func Links(ctx context.Context, db schema.Querier) ([]Link, error) {
	return schema.Rows(ctx, db, "read the links of connected accounts", pgx.RowToStructByPos[Link], linksSQL)
}

// linksSQL reads all switches: they are few.
const linksSQL = `
with switched as materialized (
    select s.id, s.at, s.who, s.why, coalesce(m.body -> 'Accounts', '{}') as accounts
      from meaning_switches s join meanings m using (hash))
select split_part(l.key, '/', 1), substr(l.key, position('/' in l.key) + 1), l.value, first.at, first.who, first.why
  from switched, jsonb_each_text(accounts) l, lateral (
       select f.at, f.who, f.why from switched f
        where f.id > coalesce((select max(o.id) from switched o where o.accounts ->> l.key is distinct from l.value), 0)
        order by f.id limit 1) first
 where switched.id = (select max(id) from meaning_switches)
 order by l.key`
