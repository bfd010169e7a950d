package stripe

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"time"

	api "github.com/stripe/stripe-go/v76"

	"github.com/pawlhq/pawl/activities/effect"
)

// The lists of API v2 differ from the lists of v1 in their paging and in the header for a connected account.

// ThinQuery selects a page of thin events.
type ThinQuery struct {
	// Next is the path of the page, as returned with the previous page, or "" for the first page.
	Next string
	// Account is the connected account, or "" for the key's own.
	Account string
}

// ThinEvents returns a page of Stripe's thin events, newest first, and the path of the next page, or "" after the
// last one. Stripe lists the events of [EventsKept]. Errors are as for [Client.Object].
func (c *Client) ThinEvents(ctx context.Context, q ThinQuery) (page []Event, next string, err error) {
	list, next, at, err := c.pageV2(ctx, cmp.Or(q.Next, "/v2/core/events?limit=100"), q.Account)
	for _, body := range list {
		var head struct {
			ID, Type string
			Livemode bool
			Created  time.Time
			Snapshot string              `json:"snapshot_event"`
			Related  struct{ ID string } `json:"related_object"`
		}
		_ = json.Unmarshal(body, &head) // fields that cannot be parsed stay empty
		page = append(page, Event{Listed: listed(body, at), Type: head.Type, Object: head.Related.ID,
			Created: head.Created.UTC(), Snapshot: head.Snapshot})
	}
	return page, next, err
}

// Destinations returns the account's event destinations that send thin events to a URL, in the form of webhook
// endpoints. Application is set if a destination sends the events of other accounts.
func (c *Client) Destinations(ctx context.Context) (all []api.WebhookEndpoint, err error) {
	next := "/v2/core/event_destinations?include[0]=webhook_endpoint.url&limit=100"
	for next != "" {
		var list []json.RawMessage
		if list, next, _, err = c.pageV2(ctx, next, ""); err != nil {
			return nil, err
		}
		for _, body := range list {
			var d struct {
				ID, Status string
				Livemode   bool
				Payload    string               `json:"event_payload"`
				Events     []string             `json:"enabled_events"`
				From       []string             `json:"events_from"`
				Endpoint   struct{ URL string } `json:"webhook_endpoint"`
			}
			if err := json.Unmarshal(body, &d); err != nil {
				return nil, effect.Fault("%s: an event destination cannot be parsed: %w", c.host, err)
			}
			if d.Payload != "thin" || d.Endpoint.URL == "" {
				continue
			}
			e := api.WebhookEndpoint{ID: d.ID, Status: d.Status, Livemode: d.Livemode, URL: d.Endpoint.URL,
				EnabledEvents: d.Events}
			if len(d.From) > 0 && d.From[0] != "@self" {
				e.Application = d.From[0]
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// pageV2 returns a page of a list of API v2, the path of the next page, and the time of the response.
func (c *Client) pageV2(ctx context.Context, path, account string) (list []json.RawMessage, next string, at time.Time,
	err error) {
	u, err := url.Parse(path)
	if err != nil {
		return nil, "", at, effect.Fault("%s: the path of the next page cannot be parsed", c.host)
	}
	fetched, err := c.get(ctx, u.Path, account, u.Query())
	if err != nil {
		return nil, "", at, err
	}
	var answer struct {
		Data []json.RawMessage
		Next string `json:"next_page_url"`
	}
	if err := json.Unmarshal(fetched.Body, &answer); err != nil {
		return nil, "", at, effect.Broken(c.host, true, err)
	}
	return answer.Data, answer.Next, fetched.At, nil
}

// lost returns the object of an event that Stripe could not generate, by the ID of the [FailedGeneration] event. If
// the lost event concerns a connected account, the context of that event contains the account.
func (c *Client) lost(ctx context.Context, id, account string) (Listed, error) {
	fetched, err := c.get(ctx, api.FormatURLPath("/v2/core/events/%s", id), account, nil)
	if err != nil {
		return Listed{}, err
	}
	var event struct {
		Data struct {
			Impact struct {
				Context string
				Related struct{ ID, Type string } `json:"related_object"`
			}
		}
	}
	err = json.Unmarshal(fetched.Body, &event)
	of := event.Data.Impact
	switch {
	case err != nil || of.Related.ID == "" || Unusable(of.Related.ID, 255) != "":
		return Listed{}, effect.Refuse("%s does not name the object of the event that Stripe could not generate", id)
	case paths[of.Related.Type] == "": // pawl stores no facts of such an object
		return Listed{Fetched: Fetched{Body: []byte("{\"object\":\"other\"}"), At: fetched.At}}, nil
	case of.Context != account && of.Context != "":
		return Listed{}, effect.Refuse("the lost event belongs to a connected account, but %s names no account: reconcile "+
			"that account", id)
	}
	return c.Object(ctx, of.Related.Type, of.Related.ID, account)
}
