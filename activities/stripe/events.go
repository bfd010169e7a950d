package stripe

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

// EventsKept is how long Stripe lists events (docs.stripe.com/api/events).
const EventsKept = 30 * 24 * time.Hour

// mostTypes is the maximum number of types in a request.
const mostTypes = 20

// EventsQuery selects events.
type EventsQuery struct {
	// From and To are inclusive, with a resolution of one second.
	From, To time.Time
	// Types selects event types. If it is empty or longer than mostTypes, all types are returned.
	Types []string
	// After is the ID of the last event of the previous page, or "" for the first page.
	After string
	// Account is the connected account, or "" for the key's own.
	Account string
}

// Event is an event in Stripe's list.
type Event struct {
	Listed
	Type    string
	Object  string
	Created time.Time
	// Pending is set while Stripe tries to deliver the event to any endpoint. It is unknown for thin events.
	Pending bool
	// Snapshot is the ID of the snapshot event about the same change, if a thin event has one.
	Snapshot string
}

// Events returns a page of Stripe's events, newest first, and reports whether more events follow. Errors are as for
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
		_ = json.Unmarshal(l.Body, &head) // fields that cannot be parsed stay empty
		page = append(page, Event{
			Listed: l, Type: head.Type, Object: head.Data.Object.ID, Created: time.Unix(head.Created, 0).UTC(),
			Pending: head.PendingWebhooks > 0,
		})
	}
	return page, more, err
}
