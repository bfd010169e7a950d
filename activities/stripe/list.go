package stripe

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// List is a list of Stripe's.
type List struct {
	// Name is the last part of its path, such as "invoices".
	Name string
	// query narrows it.
	query url.Values
}

// Lists are what an import reads, in its order: customers first, since they say whose the rest is. Subscriptions that
// have ended, and invoices that nobody has to pay any more, say nothing about the future.
var Lists = []List{{Name: "customers"}, {Name: "subscriptions"}, {"invoices", url.Values{"status": {"open"}}}}

// Listed is one object of a list.
type Listed struct {
	Fetched
	ID string
	// Mode is "live" or "test".
	Mode string
}

// ImportedFacts returns the facts that the object tells; see [ReadObject].
func (l Listed) ImportedFacts(s billing.Subject) ([]billing.Fact, error) {
	s.OccurredAt = l.At
	return ReadObject(l.Body, s, billing.FromImport)
}

// Page returns the objects of a list that come after another ("" for the first ones), up to 100, and whether there
// are more. An after that is gone meanwhile is [ErrNotFound]. Errors are like those of [Client.Object]
// otherwise.
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
		return nil, false, effect.Fault("%s: a page of %s after which nothing can be asked for", c.host, list.Name)
	}
	return page, answer.HasMore, nil
}

func listed(body json.RawMessage, at time.Time) Listed {
	var head struct {
		ID       string
		Livemode bool
	}
	_ = json.Unmarshal(body, &head) // what cannot be read has no ID, and tells no facts
	l := Listed{Fetched: Fetched{Body: body, At: at}, ID: head.ID, Mode: "test"}
	if head.Livemode {
		l.Mode = "live"
	}
	return l
}
