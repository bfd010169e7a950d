package console

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/job"
)

// decisionPage shows what a decision would do, and asks why. After it was made it says what came of it.
type decisionPage struct {
	*operator.Verb
	Target string
	Fields []field
	// Filter is the query of the events that it is about, where it is about many.
	Filter []field
	// Request makes a form that is sent twice one decision.
	Request string
	// Refused says why it would be refused, and Choices what can be done instead.
	Refused string
	Choices []button
	// FourEyes says why it takes two persons, and whether one has asked for it.
	FourEyes string
	// Forbidden is set where the person may look and not decide.
	Forbidden string
	// Asks and Does are those of a review's question.
	Asks, Does string
	Facts      [][2]cell
	// Later is the address of the same page with its Facts, where they take seconds.
	Later string
	Table *shownTable
	// Says is what came of the decision, Follow a link to see it. Shown is what is shown this once: a token.
	Says, Follow, Shown string
	// Waits is set where nothing came of it yet: it waits for a second person.
	Waits bool
}

// field is a field of the form.
type field struct {
	Name, Label, Value string
	Required           bool
}

// decisionOf reads a decision from the query or the form.
func decisionOf(v *visit) (operator.Decision, *operator.Verb, error) {
	d := operator.Decision{Verb: v.FormValue("verb"), Target: strings.TrimSpace(v.FormValue("target")), By: v.person,
		Why: v.FormValue("why"), Request: v.FormValue("request")}
	verb := operator.VerbNamed(d.Verb)
	if verb == nil || verb.Command == "" {
		return d, nil, &problem{http.StatusNotFound, "There is no such decision", d.Verb}
	}
	for _, f := range verb.Flags {
		*f.Value(&d.Args) = strings.TrimSpace(v.FormValue(f.Name))
	}
	return d, verb, nil
}

// showDecision previews a decision.
func (s *Server) showDecision(v *visit) error {
	d, verb, err := decisionOf(v)
	if err != nil {
		return err
	}
	page := newDecisionPage(v, d, verb)
	if d.Target == "" || lacks(page.Fields) { // the form asks first
		return s.render(v, http.StatusOK, "decide", verb.Short, page)
	}
	p, err := s.Operator.Preview(v.ctx(), d)
	if err != nil {
		return err
	}
	page.Refused, page.Choices = p.Refused, buttons(p.Choices)
	if p.Refused == "" {
		page.preview(p)
	}
	if r := p.Receipt; r.ID != "" && (verb.Name == operator.VerbApprove || verb.Name == operator.VerbReject) {
		page.Asks, page.Does, _ = operator.Does(&r, verb.Name)
	}
	return s.render(v, http.StatusOK, "decide", verb.Short, page)
}

func newDecisionPage(v *visit, d operator.Decision, verb *operator.Verb) decisionPage {
	page := decisionPage{Verb: verb, Target: d.Target, Request: rand.Text()}
	for _, f := range verb.Flags {
		page.Fields = append(page.Fields, field{f.Name, strings.ReplaceAll(f.Usage, "`", ""), *f.Value(&d.Args),
			f.Required})
	}
	if !v.person.May(verb.Right()) {
		page.Forbidden = operator.Forbids(verb.Name, verb.Right()).Error()
	}
	return page
}

var reasonMissing = &problem{http.StatusBadRequest, "The reason is missing",
	"It goes into the audit trail. Go back and write it."}

// lacks reports whether a required field is empty.
func lacks(fields []field) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.Required && f.Value == "" })
}

// preview shows what would happen.
func (p *decisionPage) preview(of *operator.Preview) {
	p.FourEyes = of.FourEyes
	if of.Receipt.ID == "" && of.Access == nil {
		p.Facts = pairs([][]string{{"then", cmp.Or(of.Says, "it is done")}})
		return
	}
	t := newTable(tables.Effects(of.Effects))
	p.Table = &t
	rows := [][]string{{"effects", tables.Totals(of.Counts, of.Money)}}
	if of.WaitsFor != "" {
		rows = append(rows, []string{"its run waits first", of.WaitsFor})
	}
	if of.Access != nil {
		rows = append(rows, []string{"then", of.Access.Account + " may use " +
			operator.Uses(of.Access.Target.Plan, of.Access.Target.Quantity)})
	} else {
		rows = append(rows, []string{"then", "it is " + of.Outcome + tables.Because(of.Outcome, of.Reason)})
	}
	p.Facts = pairs(rows)
}

// decide makes a decision. Sent twice, the form is one decision: the second page says so.
func (s *Server) decide(v *visit) error {
	d, verb, err := decisionOf(v)
	if err != nil {
		return err
	}
	page := newDecisionPage(v, d, verb)
	if strings.TrimSpace(d.Why) == "" {
		return reasonMissing
	}
	if lacks(page.Fields) {
		return &problem{http.StatusBadRequest, "A field is missing", "Go back and fill in every field that is marked."}
	}
	if verb.Name == operator.VerbResend && d.Confirm == "" {
		return &problem{http.StatusBadRequest, "The key is missing",
			"Sent again, it may happen twice. Go back and type the effect's key."}
	}
	answer, err := s.Operator.Decide(v.ctx(), d)
	if err != nil {
		return err
	}
	page.told(answer)
	return s.render(v, http.StatusOK, "decide", verb.Short, page)
}

// told says what came of a decision, and leads on.
func (p *decisionPage) told(answer *operator.Answer) {
	p.Says = answer.Says
	if answer.Pending != nil {
		p.Waits, p.Follow = true, "/"
	}
	switch r := answer.Result.(type) {
	case *operator.EventResult:
		p.Follow = "/events/" + url.PathEscape(r.Receipt)
	case *operator.AccountResult:
		p.Follow = "/accounts/" + r.Mode + "/" + url.PathEscape(r.Account)
	case *job.Job:
		p.Follow = "/jobs/" + url.PathEscape(r.ID)
	case *operator.TaskResult:
		p.Follow = "/tasks/" + url.PathEscape(answer.Target)
	case *operator.PauseResult:
		p.Follow = "/sinks"
	case *operator.TokenResult:
		p.Follow, p.Shown = "/tokens", r.Token
	}
}

// manyOf reads a decision about many events, and their filter.
func manyOf(v *visit) (operator.Decision, *operator.Verb, operator.Events, error) {
	d, verb, err := decisionOf(v)
	f := operator.EventsOf(criteria(v))
	if err == nil {
		if wrong := verb.CheckMany(f.Status, rateOf(v)); wrong != nil {
			err = &problem{http.StatusBadRequest, "That does not fit", wrong.Error()}
		}
	}
	return d, verb, f, err
}

// rateOf is the rate of a form, 0 for what is no number.
func rateOf(v *visit) float64 {
	rate, _ := strconv.ParseFloat(cmp.Or(v.FormValue("rate"), defaultRate), 64)
	return rate
}

// defaultRate is in events a second.
const defaultRate = "5"

var nonePasses = &problem{http.StatusNotFound, "No event passes the filter",
	"Somebody may have decided about all of them."}

// newJob is the job of a form.
func newJob(v *visit, d operator.Decision, chosen operator.Chosen) *operator.NewJob {
	return &operator.NewJob{Job: job.Job{Action: d.Verb, Effect: d.Effect, Reference: d.Reference,
		Filter: criteria(v), Rate: rateOf(v)}, Chosen: chosen}
}

// showMany shows what a decision about many events chooses. With preview=effects it also says what would happen, by the
// plan of each event. That takes seconds: the page's script asks for it when the page stands.
func (s *Server) showMany(v *visit) error {
	d, verb, f, err := manyOf(v)
	if err != nil {
		return err
	}
	count, chosen, err := operator.CountEvents(v.ctx(), s.Operator.DB, f, 20)
	if err == nil && count == 0 {
		err = nonePasses
	}
	if err != nil {
		return err
	}
	page := newDecisionPage(v, d, verb)
	page.Target = output.Plural(count, "event") + tables.InBrackets(operator.Sums(chosen.Money))
	q := criteria(v)
	for _, name := range operator.Criteria {
		if value := q[name]; value != "" {
			page.Filter = append(page.Filter, field{Name: name, Label: name, Value: value})
		}
	}
	page.Fields = append(page.Fields, field{"rate", "how many events a second, at most", defaultRate, true},
		field{"count", "how many they are: type " + strconv.Itoa(count), "", true})
	if later := v.QueryParams(); later.Get("preview") == "" {
		later.Set("preview", "effects")
		page.Later = v.Request().URL.Path + "?" + later.Encode()
	} else if page.Facts, err = previewMany(v, s.Operator, d, f); err != nil {
		return err
	}
	t := newTable(tables.Chosen(chosen.Events))
	page.Table = &t
	return s.render(v, http.StatusOK, "decide", verb.Short, page)
}

// previewMany says what a job would do.
func previewMany(v *visit, o *operator.Operator, d operator.Decision, f operator.Events) ([][2]cell, error) {
	chosen, err := operator.ChooseEvents(v.ctx(), o.DB, f)
	if err != nil {
		return nil, err
	}
	made, err := o.PreviewJob(v.ctx(), v.person, newJob(v, d, chosen))
	if err != nil {
		return nil, err
	}
	return pairs(tables.JobPreview(made)), nil
}

// decideMany makes the job. The number that was typed has to be the number of events now.
func (s *Server) decideMany(v *visit) error {
	d, verb, f, err := manyOf(v)
	if err != nil {
		return err
	}
	chosen, err := operator.ChooseEvents(v.ctx(), s.Operator.DB, f)
	if err == nil && len(chosen.Events) == 0 {
		err = nonePasses
	}
	if err != nil {
		return err
	}
	switch {
	case v.FormValue("count") != strconv.Itoa(len(chosen.Events)):
		return &problem{http.StatusConflict, "The number is not the one of the events",
			"There are " + strconv.Itoa(len(chosen.Events)) + " now. Nothing was done: go back, and look again."}
	case strings.TrimSpace(d.Why) == "":
		return reasonMissing
	}
	id := verb.Name + "-" + strings.ToLower(d.Request[:min(8, len(d.Request))])
	answer, err := s.Operator.Decide(v.ctx(), operator.Decision{
		Verb: operator.VerbStartJob, Target: id, By: v.person, Why: d.Why, Request: id,
		Args: operator.Args{Found: newJob(v, d, chosen)},
	})
	if err != nil {
		return err
	}
	if answer.Pending != nil {
		page := newDecisionPage(v, d, verb)
		page.told(answer)
		return s.render(v, http.StatusAccepted, "decide", verb.Short, page)
	}
	return v.Redirect(http.StatusSeeOther, "/jobs/"+url.PathEscape(answer.Target))
}
