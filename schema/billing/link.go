package billing

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Link maps a connected account to one of our accounts.
type Link struct {
	Mode      string `json:"mode"`
	Connected string `json:"connected_account"`
	Account   string `json:"account"`
	// Since is when the link became active, by Who and for the reason Why.
	Since time.Time `json:"since"`
	Who   string    `json:"who"`
	Why   string    `json:"why"`
}

// WithLinks returns the policy with the active links of the modes in Linked. A mapping of the policy itself has
// priority.
func WithLinks(ctx context.Context, db schema.Querier, p fact.Policy) (fact.Policy, error) {
	if len(p.Linked) == 0 {
		return p, nil
	}
	inForce, err := InForce(ctx, db, p)
	if err != nil {
		return p, err
	}
	own := p.Accounts
	p.Accounts = map[fact.Connected]string{}
	maps.Copy(p.Accounts, inForce.Accounts)
	maps.DeleteFunc(p.Accounts, func(of fact.Connected, _ string) bool { return !slices.Contains(p.Linked, of.Mode) })
	maps.Copy(p.Accounts, own)
	return p.Sealed(), nil
}

// Links returns the active links, each with the change of the rules that added it.
func Links(ctx context.Context, db schema.Querier) ([]Link, error) {
	return schema.Rows(ctx, db, "read the links of connected accounts", pgx.RowToStructByPos[Link], linksSQL)
}

// linksSQL reads all changes of the rules: there are few.
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
