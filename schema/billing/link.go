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

// Link maps a connected account of the provider to an account in pawl.
type Link struct {
	Mode      string `json:"mode"`
	Connected string `json:"connected_account"`
	Account   string `json:"account"`
	// Since is when the link became active. Actor activated it, with this reason.
	Since  time.Time `json:"linked_at"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
}

// WithLinks returns the policy with the active links added, for the modes in Linked. An entry in the policy takes
// precedence over a link.
func WithLinks(ctx context.Context, db schema.Querier, p fact.Policy) (fact.Policy, error) {
	if len(p.Linked) == 0 {
		return p, nil
	}
	active, err := ActiveRules(ctx, db, p)
	if err != nil {
		return p, err
	}
	own := p.Accounts
	p.Accounts = map[fact.Connected]string{}
	maps.Copy(p.Accounts, active.Accounts)
	maps.DeleteFunc(p.Accounts, func(of fact.Connected, _ string) bool { return !slices.Contains(p.Linked, of.Mode) })
	maps.Copy(p.Accounts, own)
	return p.Sealed(), nil
}

// Links returns the active links. Each contains the change of the billing rules that added it.
func Links(ctx context.Context, db schema.Querier) ([]Link, error) {
	return schema.Rows(ctx, db, "read the links of connected accounts", pgx.RowToStructByPos[Link], linksSQL)
}

// linksSQL reads all changes of the billing rules, because there are few.
const linksSQL = `
with switched as materialized (
    select s.id, s.at, s.who, s.why, coalesce(m.body -> 'Accounts', '{}') as accounts
      from billing_rules_changes s join billing_rules m using (hash))
select split_part(l.key, '/', 1), substr(l.key, position('/' in l.key) + 1), l.value, first.at, first.who, first.why
  from switched, jsonb_each_text(accounts) l, lateral (
       select f.at, f.who, f.why from switched f
        where f.id > coalesce((select max(o.id) from switched o where o.accounts ->> l.key is distinct from l.value), 0)
        order by f.id limit 1) first
 where switched.id = (select max(id) from billing_rules_changes)
 order by l.key`
