package stripe

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

// EventsKept is for how long Stripe lists events (docs.stripe.com/api/events).
const EventsKept = 30 * 24 * time.Hour

// mostTypes is how many types can be asked for at once.
const mostTypes = 20

// EventsQuery says which events are asked for.
type EventsQuery struct {
	// From and To are both included; Stripe counts in seconds.
	From, To time.Time
	// Types are those that are wanted; none, or more than can be asked for, is for all.
	Types []string
	// After is the ID of the last event of the page before, "" for the first page.
	After string
	// Account is the connected account whose events are asked for, "" for the key's own.
	Account string
}

// Event is an event of the list: what Stripe has sent, or tries to.
type Event struct {
	Listed
	Type    string
	Object  string
	Created time.Time
	// Pending says that Stripe still tries to deliver it, to some endpoint.
	Pending bool
}

// Events returns a page of Stripe's events, the newest first, and whether there is more. Errors are like those of
// [Client.Page].
func (c *Client) Events(ctx context.Context, q EventsQuery) (page []Event, more bool, err error) {
	query := url.Values{"created[gte]": {strconv.FormatInt(q.From.Unix(), 10)},
		"created[lte]": {strconv.FormatInt(q.To.Unix(), 10)}}
	if len(q.Types) <= mostTypes {
		query["types[]"] = q.Types
	}
	found, more, err := c.Page(ctx, List{"events", query}, q.After, q.Account)
	for _, l := range found {
		var head struct {
			Type            string
			Created         int64
			PendingWebhooks int `json:"pending_webhooks"`
			Data            struct{ Object struct{ ID string } }
		}
		_ = json.Unmarshal(l.Body, &head) // what cannot be read is shown without
		page = append(page, Event{
			Listed: l, Type: head.Type, Object: head.Data.Object.ID, Created: time.Unix(head.Created, 0).UTC(),
			Pending: head.PendingWebhooks > 0,
		})
	}
	return page, more, err
}
