package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// reading returns the routes that change nothing.
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
		get("/events", answer((*call).events), "status", "reason_code", "source", "type", "object", "account", "since",
			"until", "cursor", "limit"),
		get("/events/{id}", answer((*call).event)),
		get("/events/{id}/payload", answer((*call).payload)),
		get("/effects", answer((*call).effects), "prefix", "state", "cursor", "limit"),
		get("/tasks", answer((*call).tasks), "mode", "kind", "about", "account", "cursor", "limit"),
		get("/tasks/{id}", answer((*call).tasksAbout)),
		get("/payments/unassigned", answer((*call).unassigned), "mode", "limit"),
		get("/approvals", answer(func(c *call) (Page[pending.Decision], error) {
			found, err := pending.List(c.ctx(), c.Operator.DB)
			return page(found, len(found), nil), err
		})),
		get("/jobs", answer((*call).jobs), "cursor", "limit"),
		get("/jobs/{id}", answer((*call).job), "result", "limit"),
		get("/sinks", answer(func(c *call) (Page[report.Sink], error) {
			found, err := report.TimedSinks(c.ctx(), c.Config, c.Operator.DB)
			return page(found, len(found), nil), err
		})),
		get("/sources", answer(func(c *call) (Page[report.Source], error) {
			found, err := report.ReadSources(c.ctx(), c.Config, c.Operator.DB, report.UnusedFor)
			return page(found, len(found), nil), err
		})),
		get("/audit", answer((*call).audit), "target", "actor", "action", "since", "cursor", "limit"),
	}
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

func (c *call) events() (p Page[timeline.Receipt], err error) {
	words := make([]string, len(receipt.Statuses))
	for i, s := range receipt.Statuses {
		words[i] = string(s)
	}
	f := event.Filter{Object: c.QueryParam("object"), Account: c.QueryParam("account")}
	f.ReasonCode, f.Source, f.Type = c.QueryParam("reason_code"), c.QueryParam("source"), c.QueryParam("type")
	if f.Status, err = c.oneOf("status", words...); err != nil {
		return p, err
	}
	if f.Since, err = c.time("since"); err != nil {
		return p, err
	}
	if f.Until, err = c.time("until"); err != nil {
		return p, err
	}
	f.OlderThan = c.QueryParam("cursor")
	if _, err := uuid.Parse(f.OlderThan); f.OlderThan != "" && err != nil {
		return p, noCursor()
	}
	limit, err := c.limit()
	if err != nil {
		return p, err
	}
	f.Limit = limit + 1
	found, err := event.List(c.ctx(), c.Operator.DB, f)
	return page(found, limit, func(r timeline.Receipt) string { return r.ID }), err
}

func noCursor() error { return wrong("cursor: use the next of a page") }

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

func (c *call) effects() (p Page[ledger.Listed], err error) {
	f := ledger.Filter{Prefix: c.QueryParam("prefix"), After: c.QueryParam("cursor")}
	if f.Open, err = c.oneOf("state", "claimed", "failed", "uncertain"); err != nil {
		return p, err
	}
	limit, err := c.limit()
	if err != nil {
		return p, err
	}
	f.Limit = limit + 1
	found, err := ledger.List(c.ctx(), c.Operator.DB, f)
	return page(found, limit, func(e ledger.Listed) string { return e.Key }), err
}

func (c *call) tasks() (p Page[account.Task], err error) {
	f := account.TaskFilter{Kind: c.QueryParam("kind"), About: c.QueryParam("about"), Account: c.QueryParam("account")}
	if f.Mode, err = c.oneOf("mode", "live", "test"); err != nil {
		return p, err
	}
	if at := c.QueryParam("cursor"); at != "" {
		parts := strings.SplitN(at, "/", 3)
		if len(parts) != 3 {
			return p, noCursor()
		}
		f.After = account.Task{Mode: parts[0], Kind: parts[1], Object: parts[2]}
	}
	limit, err := c.limit()
	if err != nil {
		return p, err
	}
	f.Limit = limit + 1
	found, err := account.OpenTasks(c.ctx(), c.Operator.DB, f)
	return page(found, limit, func(t account.Task) string { return t.Mode + "/" + t.Kind + "/" + t.Object }), err
}

// unassigned lists unassigned money, oldest first. The list has no cursor, because assigned objects leave it.
func (c *call) unassigned() (p Page[billing.Money], err error) {
	mode, err := c.oneOf("mode", "live", "test")
	if err != nil {
		return p, err
	}
	limit, err := c.limit()
	if err != nil {
		return p, err
	}
	found, err := billing.New(c.Operator.DB).ListUnassigned(c.ctx(), mode, 0, limit)
	return page(found, limit, nil), err
}

func (c *call) tasksAbout() (p Page[task.Shown], err error) {
	object, err := c.segment("id")
	if err != nil {
		return p, err
	}
	found, err := task.Show(c.ctx(), c.Operator, object)
	return page(found, len(found), nil), err
}

func (c *call) jobs() (p Page[job.Job], err error) {
	limit, err := c.limit()
	if err != nil {
		return p, err
	}
	found, err := job.New(c.Operator.DB).List(c.ctx(), limit+1, c.QueryParam("cursor"))
	return page(found, limit, func(j job.Job) string { return j.ID }), err
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

// numbered returns the size of a page, and the number of the row that the page starts after. The number is 0 for the
// first page.
func (c *call) numbered() (limit int, olderThan int64, err error) {
	if at := c.QueryParam("cursor"); at != "" {
		if olderThan, err = strconv.ParseInt(at, 10, 64); err != nil || olderThan < 1 {
			return 0, 0, noCursor()
		}
	}
	limit, err = c.limit()
	return limit, olderThan, err
}

func (c *call) audit() (p Page[audit.Row], err error) {
	limit, olderThan, err := c.numbered()
	if err != nil {
		return p, err
	}
	f := audit.Filter{Target: c.QueryParam("target"), Actor: c.QueryParam("actor"), Action: c.QueryParam("action"),
		OlderThan: olderThan, Limit: limit + 1}
	if f.Since, err = c.time("since"); err != nil {
		return p, err
	}
	found, err := c.Operator.Audit.List(c.ctx(), f)
	return page(found, limit, func(r audit.Row) string { return strconv.FormatInt(r.ID, 10) }), err
}

// routes returns all routes.
func routes() []route { return slices.Concat(reading(), deciding()) }
