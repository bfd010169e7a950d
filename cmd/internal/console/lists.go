package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	tokens "github.com/pawlhq/pawl/cmd/internal/operator/token"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/token"
)

// listPage is a list with its filters and the text for an empty list.
type listPage struct {
	Filters []filter
	Rows    shownTable
	More    shownTable
	Empty   string
	Older   string // the link to the next page, or "" on the last page
	Renews  bool
	// Many lists the decisions about all rows. Choices are collapsed below Decides.
	Many    []button
	Decides string
	Choices []button
}

func (p listPage) renews() bool { return p.Renews }

func (s *Server) tasks(v *visit) error {
	f := account.TaskFilter{Mode: v.FormValue("mode"), Kind: v.FormValue("kind"), Account: v.FormValue("account"),
		Limit: 200}
	found, err := account.OpenTasks(v.ctx(), s.Operator.DB, f)
	if err != nil {
		return err
	}
	return s.render(v, http.StatusOK, "list", "Tasks", listPage{Rows: newTable(tables.Tasks(found)), Filters: []filter{
		{"mode", "mode", f.Mode, []string{"live", "test"}}, {"kind", "kind", f.Kind, nil},
		{"account", "account", f.Account, nil},
	}, Empty: "No task is open: nobody has to do anything."})
}

// payments lists unassigned money. Each object links to the decision that assigns it.
func (s *Server) payments(v *visit) error {
	mode := v.FormValue("mode")
	found, err := billing.New(s.Operator.DB).ListUnassigned(v.ctx(), mode, 0, listed)
	if err != nil {
		return err
	}
	rows := newTable(tables.Unassigned(found))
	may := v.person.May(operator.Verbs.Named(money.Assign.Name).Rights()...)
	for i, row := range rows.Rows {
		for j := range row {
			if may && row[j].Head == "ID" {
				row[j].Href = decideHref(decide.Decision{Verb: money.Assign.Name, Target: found[i].ID,
					Args: decide.Args{Mode: found[i].Mode}})
			}
		}
	}
	modes := filter{"mode", "mode", mode, []string{"live", "test"}}
	return s.render(v, http.StatusOK, "list", "Payments", listPage{Rows: rows, Filters: []filter{modes},
		Empty: "All known money has an account."})
}

// taskPage shows the tasks about an object.
type taskPage struct {
	Object string
	Tasks  []taskShown
}

type taskShown struct {
	task.Shown
	Head    [][2]cell
	Actions shownTable
	Choices []button
}

func (s *Server) task(v *visit) error {
	object, err := v.segment("object")
	if err != nil {
		return err
	}
	found, err := task.Show(v.ctx(), s.Operator, object)
	if err != nil {
		return err
	}
	page := taskPage{Object: object}
	for _, t := range found {
		shown := taskShown{Shown: t, Head: pairs(tables.TaskHead(t)), Actions: newTable(tables.TaskActions(t))}
		switch {
		case t.State != fold.TaskOpen:
		case t.Kind == billing.TaskReview:
			shown.Choices = []button{{Label: "answer", Does: "decides about its event",
				Href: "/events/" + url.PathEscape(t.Event)}}
		default:
			for _, name := range []string{task.Take.Name, task.Note.Name, task.Close.Name} {
				verb := operator.Verbs.Named(name)
				d := decide.Decision{Verb: name, Target: t.Object, Args: decide.Args{Kind: t.Kind, Mode: t.Mode}}
				shown.Choices = append(shown.Choices, button{Label: strings.TrimPrefix(verb.Command, "tasks "),
					Does: verb.Short, Verb: name, Href: decideHref(d)})
			}
			answers := map[string]string{billing.TaskEntry: money.Correct.Name,
				fold.TaskCorrection: money.Regrant.Name}
			if name := answers[t.Kind]; name != "" {
				verb := operator.Verbs.Named(name)
				d := decide.Decision{Verb: name, Target: t.Object, Args: decide.Args{Mode: t.Mode}}
				shown.Choices = append(shown.Choices, button{Label: name, Does: verb.Short, Verb: name,
					Href: decideHref(d)})
			}
		}
		shown.Choices = allowed(v.person, shown.Choices)
		page.Tasks = append(page.Tasks, shown)
	}
	return s.render(v, http.StatusOK, "task", "Tasks about "+object, page)
}

func (s *Server) jobs(v *visit) error {
	found, err := job.New(s.Operator.DB).List(v.ctx(), listed, "")
	if err != nil {
		return err
	}
	return s.render(v, http.StatusOK, "list", "Jobs", listPage{Rows: newTable(tables.Jobs(found)),
		Empty: "No job was ever made. Decide about many events at once from their list: Events, with a status."})
}

// jobPage shows a job and its progress.
type jobPage struct {
	*jobs.Details
	Head    [][2]cell
	Rows    shownTable
	Choices []button
}

func (p jobPage) renews() bool { return p.State == job.Running }

// Percent returns the completed share of the job.
func (p jobPage) Percent() int {
	if p.Job.Items == 0 {
		return 100
	}
	return 100 * (p.Job.Items - p.Left()) / p.Job.Items
}

func (s *Server) job(v *visit) error {
	id, err := v.segment("id")
	if err != nil {
		return err
	}
	d, err := jobs.Show(v.ctx(), s.Operator, id, "", 100)
	if err != nil {
		return err
	}
	parts := tables.Job(d)
	page := jobPage{Details: d, Head: pairs(parts[0]), Rows: newTable(parts[1])}
	names := map[job.State][]string{job.Running: {"pause-job", "cancel-job"},
		job.Paused: {"resume-job", "cancel-job"}}[d.State]
	for _, name := range names {
		page.Choices = append(page.Choices, button{Label: strings.TrimSuffix(name, "-job"),
			Does: operator.Verbs.Named(name).Short, Verb: name,
			Href: decideHref(decide.Decision{Verb: name, Target: d.ID}), Grave: name == "cancel-job"})
	}
	page.Choices = allowed(v.person, page.Choices)
	return s.render(v, http.StatusOK, "job", "Job "+d.ID, page)
}

func (s *Server) sinks(v *visit) error {
	found, err := report.TimedSinks(v.ctx(), s.Config, s.Operator.DB)
	if err != nil {
		return err
	}
	page := listPage{Rows: newTable(tables.Sinks(found)), More: newTable(tables.Took(found)),
		Renews: true, Empty: "No sink is configured.",
		Decides: "Pause and resume"}
	for _, sink := range found {
		verb := "pause"
		if sink.State == "paused" {
			verb = "resume"
		}
		page.Choices = append(page.Choices, placeButton(verb, decide.Sink, sink.Name))
	}
	page.Choices = allowed(v.person, page.Choices)
	return s.render(v, http.StatusOK, "list", "Sinks", page)
}

// placeButton pauses or resumes a sink or a source.
func placeButton(verb, kind, name string) button {
	d := decide.Decision{Verb: verb + "-" + kind, Target: name}
	return button{Label: verb + " " + kind + " " + name, Does: operator.Verbs.Named(d.Verb).Short, Verb: d.Verb,
		Href: decideHref(d), Grave: verb == "pause"}
}

func (s *Server) sources(v *visit) error {
	found, err := report.ReadSources(v.ctx(), s.Config, s.Operator.DB, report.UnusedFor)
	if err != nil {
		return err
	}
	page := listPage{Rows: newTable(tables.Traffic(found)), More: newTable(tables.Sources(found)), Renews: true,
		Empty: "No source is configured.", Decides: "Pause and resume"}
	for _, source := range found {
		verb := "pause"
		if source.Paused != "" {
			verb = "resume"
		}
		page.Choices = append(page.Choices, placeButton(verb, decide.Source, source.Name))
	}
	page.Choices = allowed(v.person, page.Choices)
	return s.render(v, http.StatusOK, "list", "Sources", page)
}

// rules lists the versions of the billing rules. If policy.four_eyes is set, two people apply proposed rules here.
func (s *Server) rules(v *visit) error {
	found, err := billing.RulesVersions(v.ctx(), s.Operator.DB)
	if err != nil {
		return err
	}
	page := listPage{Rows: newTable(tables.RulesVersions(found)), Decides: "Apply",
		Empty: "No process has proposed billing rules yet."}
	for _, m := range found {
		if !m.Active {
			page.Choices = append(page.Choices, button{Label: "apply " + m.Hash, Does: "activates the rules",
				Verb: rules.Apply.Name,
				Href: decideHref(decide.Decision{Verb: rules.Apply.Name, Target: m.Hash})})
		}
	}
	page.Choices = allowed(v.person, page.Choices)
	return s.render(v, http.StatusOK, "list", "Rules", page)
}

// tokens lists the API tokens for people who may create and revoke them.
func (s *Server) tokens(v *visit) error {
	found, err := token.List(v.ctx(), s.Operator.DB)
	if err != nil {
		return err
	}
	page := listPage{Rows: newTable(tables.Tokens(found)), Empty: "No program has a token yet.",
		Decides: "Make and revoke"}
	page.Choices = []button{{Label: "new token", Does: "makes a token, and shows it once",
		Href: decideHref(decide.Decision{Verb: tokens.New.Name})}}
	for _, t := range found {
		if t.RevokedAt == nil {
			page.Choices = append(page.Choices, button{Label: "revoke " + t.Name, Does: "ends it at once", Grave: true,
				Href: decideHref(decide.Decision{Verb: tokens.Revoke.Name, Target: t.Name})})
		}
	}
	return s.render(v, http.StatusOK, "list", "Tokens", page)
}

// olderThan returns the number of the last row on the previous page, or 0 for the first page.
func olderThan(v *visit) (number int64, err error) {
	if older := v.FormValue("older"); older != "" {
		if number, err = strconv.ParseInt(older, 10, 64); err != nil {
			return 0, &problem{http.StatusBadRequest, "older is no number", older}
		}
	}
	return number, nil
}

func (s *Server) audit(v *visit) (err error) {
	f := audit.Filter{Target: v.FormValue("target"), Actor: v.FormValue("who"), Action: v.FormValue("action"),
		Limit: listed + 1}
	if f.OlderThan, err = olderThan(v); err != nil {
		return err
	}
	found, err := s.Operator.Audit.List(v.ctx(), f)
	if err != nil {
		return err
	}
	page := listPage{Filters: []filter{{"target", "target", f.Target, nil}, {"who", "who", f.Actor, nil},
		{"action", "action", f.Action, nil}}, Empty: "Nobody has decided anything yet."}
	if len(found) > listed {
		found = found[:listed]
		page.Older = older("/audit", page.Filters, "older", strconv.FormatInt(found[listed-1].ID, 10))
	}
	page.Rows = newTable(tables.Audit(found))
	return s.render(v, http.StatusOK, "list", "Audit", page)
}
