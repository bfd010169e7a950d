package stripe

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// List is a list in Stripe's API.
type List struct {
	// Name is the path below /v1/, such as "invoices".
	Name string
	// query filters the list.
	query url.Values
}

// Lists are the lists that an import reads, in this order: customers first, because they link the others to accounts.
// Ended subscriptions and settled invoices are not needed for the future state.
var Lists = []List{{Name: "customers"}, {Name: "subscriptions"}, {"invoices", url.Values{"status": {"open"}}}}

// Listed is one object of a list.
type Listed struct {
	Fetched
	ID string
	// Mode is "live" or "test".
	Mode string
}

// ImportedFacts returns the facts of the object; see [ReadObject].
func (l Listed) ImportedFacts(s fact.Subject) ([]fact.Fact, error) {
	s.OccurredAt = l.At
	return ReadObject(l.Body, s, fact.FromImport)
}

// Page returns up to 100 objects of a list that follow the object after ("" for the first page), and whether there
// are more. It returns [ErrNotFound] if after no longer exists. Other errors are as for [Client.Object].
func (c *Client) Page(ctx context.Context, list List, after, account string) (page []Listed, more bool, err error) {
	query := url.Values{"limit": {"100"}}
	maps.Copy(query, list.query)
	if after != "" {
		query.Set("starting_after", after)
	}
	fetched, err := c.get(ctx, "/v1/"+list.Name, account, query)
	if err != nil {
		return nil, false, err
	}
	var answer struct {
		Data    []json.RawMessage
		HasMore bool `json:"has_more"`
	}
	if err := json.Unmarshal(fetched.Body, &answer); err != nil {
		return nil, false, effect.Broken(c.host, true, err)
	}
	for _, body := range answer.Data {
		page = append(page, listed(body, fetched.At))
	}
	if answer.HasMore && (len(page) == 0 || page[len(page)-1].ID == "") {
		return nil, false, effect.Fault("%s: the last object of a page of %s has no ID", c.host, list.Name)
	}
	return page, answer.HasMore, nil
}

func listed(body json.RawMessage, at time.Time) Listed {
	var head struct {
		ID       string
		Livemode bool
	}
	_ = json.Unmarshal(body, &head) // an object that cannot be parsed has no ID and no facts
	l := Listed{Fetched: Fetched{Body: body, At: at}, ID: head.ID, Mode: "test"}
	if head.Livemode {
		l.Mode = "live"
	}
	return l
}
