package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
)

// filter is a filter of a list.
type filter struct {
	Name, Label, Value string
	Options            []string
	// All is set if no option means all values.
	All bool
	// Usage describes the filter. Example is a value that the field shows while it is empty.
	Usage, Example string
}

// criteria returns the criteria for events from the query or the form. Times are absolute, so that the page of a
// decision is about the events of the list.
func criteria(v *visit) (map[string]string, error) {
	given := map[string]string{}
	for _, name := range event.Criteria {
		if value := strings.TrimSpace(v.FormValue(name)); value != "" {
			given[name] = value
		}
	}
	return given, resource.Fix(given, time.Now())
}

// manyButtons returns the decisions about all events of a list.
func manyButtons(p *decide.Person, q map[string]string) (all []button) {
	status := q["status"]
	for _, verb := range operator.Verbs {
		for _, acts := range verb.Many {
			about := acts == status && (verb.Reason == "" || verb.Reason == q["reason_code"])
			if about && status != "" && p.May(verb.Rights()...) {
				of := url.Values{"verb": {verb.Name}}
				for name, value := range q {
					of.Set(name, value)
				}
				all = append(all, button{Label: label.All(verb.Name), Effect: verb.Short,
					Href: "/decide/many?" + of.Encode(), Grave: verb.Name == event.Compensate.Name})
			}
		}
	}
	return all
}

// eventPage is the data of an event's page.
type eventPage struct {
	*event.Evidence
	// About is the heading: the account, the invoice number, the amount and the date.
	About   []cell
	Verdict cell
	// NotGranted is set if the event is done, and the customer did not get the ordered access.
	NotGranted bool
	Answers    []answer
	Steps      shownTable
	// Choices are the decisions. Head, Keys, Story and Picture are details that are collapsed at first.
	Choices choices
	Head    [][2]cell
	Keys    []shownTable
	Story   shownTable
	Picture *picture
	Body    string
	NoBody  string
	// Temporal is the URL of the run in the Temporal UI.
	Temporal string
	Reveals  bool
}

// choices are the possible decisions. Main is the decision that the state of the object requires. It may be nil. More
// are the other ones. Waiting confirm or withdraw a decision that waits for a second person.
type choices struct {
	Waiting []button
	Main    *button
	More    []button
}

// newChoices returns the buttons of the decisions. It disables the decisions that the person may not make.
func newChoices(p *decide.Person, recommended *decide.Choice, others []decide.Choice) (c choices) {
	if recommended != nil {
		c.Main = &permitted(p, buttons([]decide.Choice{*recommended}))[0]
	}
	c.More = permitted(p, buttons(others))
	return c
}

// withPending moves the buttons that withdraw the waiting decisions to the front, each after the button that confirms
// the same decision. The person who requested a decision cannot confirm it.
func (c choices) withPending(p *decide.Person, waiting []pending.Decision) choices {
	for _, one := range waiting {
		if !requestedBy(p, one) {
			c.Waiting = append(c.Waiting, permitted(p, []button{confirmButton(p, one)})...)
		}
	}
	for _, b := range c.More {
		if b.Verb == decide.Withdraw.Name {
			c.Waiting = append(c.Waiting, b)
		}
	}
	c.More = slices.DeleteFunc(c.More, func(b button) bool { return b.Verb == decide.Withdraw.Name })
	return c
}

// answer is the answer to one of the first questions about an event.
type answer struct {
	Question string
	Pairs    [][2]cell
}

// stirs is how long the page of an event reloads itself after the last step, for example after a decision.
const stirs = 2 * time.Minute

func (p eventPage) renews() bool {
	switch receipt.Status(p.Receipt.Status) {
	case receipt.Received, receipt.Processing, receipt.Retrying:
		return true
	}
	return time.Since(p.Receipt.UpdatedAt) < stirs
}

func (s *Server) event(v *visit) error { return s.showEvent(v, nil) }

// showEvent shows an event. revealed is the complete payload, or nil for the masked payload.
func (s *Server) showEvent(v *visit, revealed *event.Body) error {
	id, err := v.segment("id")
	if err != nil {
		return err
	}
	e, err := event.Examine(v.ctx(), s.Operator, id)
	if err != nil {
		return err
	}
	recommended, others := e.Recommended()
	page := eventPage{Evidence: e, About: cells(tables.EventSubject(e.Receipt, e.Subject)),
		Verdict: newCell("", e.Verdict), NotGranted: event.NotGranted(&e.Receipt),
		Steps:   newTable(tables.Steps(e)),
		Choices: newChoices(v.person, recommended, others).withPending(v.person, e.PendingDecisions),
		Head:    pairs(tables.EventHead(e, "")), Story: newTable(tables.Timeline(e.Timeline)),
		Keys:    []shownTable{newTable(tables.Undone(e)), newTable(tables.Done(e))},
		Picture: newPicture(&e.Event), Temporal: s.Page(e.Receipt.WorkflowID, e.LatestRun()),
		Reveals: v.person.May(role.RightReveal)}
	page.Answers = []answer{
		{Question: "Arrival and next step", Pairs: pairs(tables.Received(e))},
		{Question: "Decisions", Pairs: pairs(tables.AskedFor(e))},
	}
	body := revealed
	if body == nil {
		body, err = event.ShowBody(v.ctx(), s.Operator, e.Receipt.ID)
	}
	if err != nil {
		page.NoBody = err.Error()
	} else {
		page.Body = legible(body)
	}
	return s.render(v, http.StatusOK, "event", e.Receipt.EventID, page)
}

// legible indents a JSON payload and quotes any other payload.
func legible(b *event.Body) string {
	if b.Bytes == nil {
		return "The payload is neither JSON nor a form (" + strconv.Itoa(b.Size) +
			" bytes): pawl cannot mask it."
	}
	var indented bytes.Buffer
	if json.Indent(&indented, b.Bytes, "", "  ") == nil {
		return indented.String()
	}
	return strconv.Quote(string(b.Bytes))
}

// reveal shows the complete payload and records that in the audit trail.
func (s *Server) reveal(v *visit) error {
	id, err := v.segment("id")
	if err != nil {
		return err
	}
	answer, err := s.Operator.Decide(v.ctx(), decide.Decision{Verb: event.Reveal.Name, Target: id,
		Reason: v.FormValue("reason"), By: v.person})
	if err != nil {
		return err
	}
	body, is := answer.Result.(*event.Body)
	if !is {
		return &problem{http.StatusConflict, "The payload was not revealed", answer.Message}
	}
	return s.showEvent(v, body)
}
