package console

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
)

// shownEvents is the number of events that the page of a bulk decision lists.
const shownEvents = 20

// defaultRate is the default rate in events per second.
const defaultRate = "5"

var nonePasses = &problem{http.StatusNotFound, "No event matches the filter",
	"Perhaps another person has decided about these events meanwhile."}

// manyOf parses a bulk decision: its verb, the job without its events, and the filter that selects them.
func manyOf(v *visit) (j *decide.NewJob, verb *decide.Verb, events event.Filter, err error) {
	d, verb, err := decisionOf(v)
	if err != nil {
		return nil, nil, events, err
	}
	given, err := criteria(v)
	if err != nil {
		return nil, nil, events, err
	}
	rate, _ := strconv.ParseFloat(cmp.Or(v.FormValue("rate"), defaultRate), 64) // CheckMany refuses 0
	j = &decide.NewJob{Job: job.Job{Action: d.Verb, Effect: d.Effect, Reference: d.Reference, Filter: given,
		Rate: rate}}
	if wrong := jobs.CheckMany(verb, j.Filter["status"], rate); wrong != nil {
		return nil, nil, events, &problem{http.StatusBadRequest, "The decision does not match the filter",
			wrong.Error()}
	}
	events, err = event.JobFilter(given)
	return j, verb, events, err
}

// confirmedJob returns the job of the first person, which the second person confirms.
func (s *Server) confirmedJob(v *visit, id string) (*decide.NewJob, *decide.Verb, error) {
	j, err := jobs.Confirmed(v.ctx(), s.Operator.DB, id)
	if err != nil {
		return nil, nil, err
	}
	verb := operator.Verbs.Named(j.Action)
	if !v.person.May(verb.Rights()...) {
		return nil, nil, decide.Forbids(verb.Name, verb.Rights()...)
	}
	return j, verb, nil
}

// chosenJob returns the job of a request with its events.
func (s *Server) chosenJob(v *visit) (j *decide.NewJob, verb *decide.Verb, err error) {
	if id := v.FormValue("pending"); id != "" {
		return s.confirmedJob(v, id)
	}
	j, verb, filter, err := manyOf(v)
	if err != nil {
		return nil, nil, err
	}
	j.Chosen, err = event.Choose(v.ctx(), s.Operator.DB, filter)
	if err == nil && len(j.Chosen.Events) == 0 {
		err = nonePasses
	}
	return j, verb, err
}

// countedJob is [Server.chosenJob] with the number of the events, and only the newest events that the page lists.
func (s *Server) countedJob(v *visit) (j *decide.NewJob, verb *decide.Verb, count int, err error) {
	if id := v.FormValue("pending"); id != "" {
		if j, verb, err = s.confirmedJob(v, id); err != nil {
			return nil, nil, 0, err
		}
		count = len(j.Chosen.Events)
		j.Chosen.Events = j.Chosen.Events[:min(count, shownEvents)]
		return j, verb, count, nil
	}
	j, verb, filter, err := manyOf(v)
	if err != nil {
		return nil, nil, 0, err
	}
	count, j.Chosen, err = event.Count(v.ctx(), s.Operator.DB, filter, shownEvents)
	if err == nil && count == 0 {
		err = nonePasses
	}
	return j, verb, count, err
}

// showMany shows the events of a bulk decision. With preview=effects it also previews each event. That takes seconds,
// so a script requests it after the page has loaded.
func (s *Server) showMany(v *visit) error {
	j, verb, count, err := s.countedJob(v)
	if err != nil {
		return err
	}
	page := newManyPage(v, j, verb)
	page.Target = output.Plural(count, "event") + tables.InBrackets(decide.Sums(j.Chosen.Money))
	t := newTable(tables.Chosen(j.Chosen.Events))
	page.Table = &t
	if page.Pending == "" && page.asks(v, false) {
		return s.render(v, http.StatusOK, "decide", page.Title, page)
	}
	if page.Pending != "" {
		first, err := pending.Get(v.ctx(), s.Operator.DB, page.Pending)
		if err != nil {
			return err
		}
		page.needsTwo("", &first)
		if requestedBy(v.person, first) {
			page.Denied = "another person must confirm it"
		}
	}
	if page.Pending == "" {
		page.Fields = append(page.Fields, field{Name: "rate", Label: label.Field("rate"),
			Value: defaultRate, Required: true})
	}
	page.Fields = append(page.Fields, field{Name: "count", Required: true,
		Label: "Type " + strconv.Itoa(count) + " to confirm"})
	if later := v.QueryParams(); later.Get("preview") == "" {
		later.Set("preview", "effects")
		page.Later = v.Request().URL.Path + "?" + later.Encode()
	} else if err := s.previewMany(v, &page); err != nil {
		return err
	}
	return s.render(v, http.StatusOK, "decide", page.Title, page)
}

// newManyPage returns the page of a job. A second person who confirms the job cannot change it.
func newManyPage(v *visit, j *decide.NewJob, verb *decide.Verb) decisionPage {
	page := newDecisionPage(v, decide.Decision{Verb: verb.Name, Args: decide.Args{Effect: j.Effect,
		Reference: j.Reference}}, verb)
	page.Many, page.Pending = true, v.FormValue("pending")
	if page.Pending != "" {
		page.Fields = nil
		return page
	}
	for _, name := range event.Criteria {
		if value := j.Filter[name]; value != "" {
			page.Filter = append(page.Filter, field{Name: name, Label: name, Value: value})
		}
	}
	return page
}

// previewMany adds the preview of the job to the page.
func (s *Server) previewMany(v *visit, page *decisionPage) error {
	j, _, err := s.chosenJob(v)
	if err != nil {
		return err
	}
	made, err := jobs.PreviewAll(v.ctx(), s.Operator, v.person, j)
	if err != nil {
		return err
	}
	page.Facts = pairs(tables.JobPreview(made))
	return nil
}

// decideMany creates the job. The number that the person typed must match the current number of events.
func (s *Server) decideMany(v *visit) error {
	j, verb, err := s.chosenJob(v)
	if err != nil {
		return err
	}
	why, request := v.FormValue("reason"), v.FormValue("request")
	switch {
	case v.FormValue("count") != strconv.Itoa(len(j.Chosen.Events)):
		return &problem{http.StatusConflict, "The entered number is wrong",
			"The decision is now about " + output.Plural(len(j.Chosen.Events), "event") +
				". Nothing was changed: go back, and check the list."}
	case strings.TrimSpace(why) == "":
		return reasonMissing
	}
	id := verb.Name + "-" + strings.ToLower(request[:min(8, len(request))])
	answer, err := s.Operator.Decide(v.ctx(), decide.Decision{Verb: jobs.Start.Name, Target: id, By: v.person,
		Reason: why, Request: id, Args: decide.Args{Found: j}})
	if err != nil {
		return err
	}
	if answer.Pending != nil {
		page := newManyPage(v, j, verb)
		page.told(answer)
		return s.render(v, http.StatusAccepted, "decide", page.Title, page)
	}
	return v.Redirect(http.StatusSeeOther, "/jobs/"+url.PathEscape(answer.Target))
}
