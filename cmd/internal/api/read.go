package api

import (
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/role"

	"encoding/json"
	"net/http"
	"slices"

	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// reading returns the routes that only read.
func reading() []route {
	get := func(path string, serve func(*call) error, query ...string) route {
		return route{http.MethodGet, path, readers, query, serve}
	}
	return []route{
		{http.MethodGet, "/openapi.json", nil, nil, func(c *call) error {
			return c.Blob(http.StatusOK, "application/json", c.document)
		}},
		{http.MethodGet, "/openapi.yaml", nil, nil, func(c *call) error {
			return c.Blob(http.StatusOK, "application/yaml", Document)
		}},
		get("/accounts/{id}", answer((*call).account), "mode"),
		get("/accounts/{id}/access", (*call).access, "mode"),
		get("/invoices/{id}", answer((*call).invoice), "mode"),
		get("/events/{id}", answer((*call).event)),
		get("/events/{id}/payload", answer((*call).payload)),
		get("/tasks/{id}", answer((*call).tasksAbout)),
		get("/jobs/{id}", answer((*call).job), "result", "limit"),
	}
}

// lists returns the routes of all lists.
func lists() (all []route) {
	for _, l := range resource.All {
		about := l.About()
		query := make([]string, 0, len(about.Filters)+2)
		for _, f := range about.Filters {
			query = append(query, f.Name)
		}
		if about.Paged {
			query = append(query, "limit")
		}
		if about.Continues {
			query = append(query, "cursor")
		}
		serve := answer(func(c *call) (any, error) { return c.list(l) })
		all = append(all, route{http.MethodGet, about.Path, []role.Right{about.Right}, query, serve})
	}
	return all
}

// listed is a [Page] with items of any type.
type listed struct {
	Items any    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// list returns a page of a list.
func (c *call) list(l resource.List) (any, error) {
	limit, err := c.limit()
	if err != nil {
		return nil, err
	}
	q, err := l.About().Query(c.QueryParam, c.QueryParam("cursor"), limit)
	if err != nil {
		return nil, err
	}
	p, err := l.Read(c.ctx(), resource.Env{Operator: c.Operator, Config: c.Config}, q)
	if err != nil {
		return nil, err
	}
	return listed{p.Items, p.Next}, nil
}

// answer returns a handler that writes the result of read as JSON.
func answer[T any](read func(*call) (T, error)) func(*call) error {
	return func(c *call) error {
		v, err := read(c)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, v)
	}
}

func (c *call) account() (*account.Account, error) {
	id, mode, err := c.about()
	if err != nil {
		return nil, err
	}
	return accounts.Show(c.ctx(), c.Operator.DB, id, mode)
}

func (c *call) invoice() (found account.ShownInvoice, err error) {
	id, mode, err := c.about()
	if err != nil {
		return found, err
	}
	return accounts.ShowInvoice(c.ctx(), c.Operator.DB, id, mode)
}

func (c *call) event() (*event.Evidence, error) {
	id, err := c.segment("id")
	if err != nil {
		return nil, err
	}
	return event.Examine(c.ctx(), c.Operator, id)
}

// Payload is the payload of an event, either masked or complete.
type Payload struct {
	*event.Body
	// JSON is set if the payload is JSON, Bytes if it is not. Both are absent if the payload cannot be masked.
	JSON  json.RawMessage `json:"payload,omitempty"`
	Bytes []byte          `json:"payload_base64,omitempty"`
}

func payloadOf(b *event.Body) *Payload {
	if json.Valid(b.Bytes) {
		return &Payload{Body: b, JSON: b.Bytes}
	}
	return &Payload{Body: b, Bytes: b.Bytes}
}

func (c *call) payload() (*Payload, error) {
	id, err := c.segment("id")
	if err != nil {
		return nil, err
	}
	b, err := event.ShowBody(c.ctx(), c.Operator, id)
	if err != nil {
		return nil, err
	}
	return payloadOf(b), nil
}

func (c *call) tasksAbout() (p Page[task.Shown], err error) {
	object, err := c.segment("id")
	if err != nil {
		return p, err
	}
	found, err := task.Show(c.ctx(), c.Operator, object)
	return Page[task.Shown]{Items: found}, err
}

func (c *call) job() (*jobs.Details, error) {
	id, err := c.segment("id")
	if err != nil {
		return nil, err
	}
	only, err := c.oneOf("result", "done", "refused", "failed", "open")
	if err != nil {
		return nil, err
	}
	limit, err := c.limit()
	if err != nil {
		return nil, err
	}
	return jobs.Show(c.ctx(), c.Operator, id, only, limit)
}

// routes returns all routes.
func routes() []route { return slices.Concat(lists(), reading(), deciding()) }
