package console

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/cmd/internal/operator/people"
	"github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	tokens "github.com/pawlhq/pawl/cmd/internal/operator/token"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing"
	billingaccount "github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/token"
)

// listPage is a list with its filters and the text for an empty list.
type listPage struct {
	Filters []filter
	// Notes explain the codes in the rows, each with the next step.
	Notes [][2]cell
	Rows  shownTable
	More  shownTable
	Empty string
	Older string // the link to the next page, or "" on the last page
	// CSV is the link to the list as a file, with the same filters. Most is the maximum number of its rows.
	CSV    string
	Most   int
	Totals []totals
	Renews bool
	// Many lists the decisions about all rows. Choices are collapsed below Decides.
	Many    []button
	Decides string
	Choices []button
}

func (p listPage) renews() bool { return p.Renews }

// listed is the number of rows on a page of a list.
const listed = 50

// list returns the handler of a list's page.
func (s *Server) list(l resource.List) func(*visit) error {
	about := l.About()
	return func(v *visit) error {
		q, err := about.Query(v.FormValue, strings.TrimSpace(v.FormValue("cursor")), listed)
		if err != nil {
			return err
		}
		env := resource.Env{Operator: s.Operator, Config: s.Config}
		switch v.FormValue("format") {
		case "":
		case "csv":
			return s.csv(v, l, env, q)
		default:
			return &problem{http.StatusBadRequest, "A parameter cannot be understood", "format: use csv"}
		}
		found, err := l.Read(v.ctx(), env, q)
		if err != nil {
			return err
		}
		page := listPage{Rows: newTable(found.Table), Empty: about.Empty, Renews: about.Renews,
			CSV: about.Path + "?" + q.Values("format", "csv").Encode(), Most: resource.MostRows}
		if page.Totals, err = readTotals(v, about, env, q); err != nil {
			return err
		}
		for _, f := range about.Filters {
			page.Filters = append(page.Filters, filter{Name: f.Name, Label: strings.ReplaceAll(f.Name, "_", " "),
				Value: cmp.Or(q.Text(f.Name), f.Default), Options: f.Values, All: f.Default == "",
				Usage: strings.ReplaceAll(f.Usage, "`", ""), Example: f.Example()})
		}
		if found.Next != "" {
			page.Older = about.Path + "?" + q.Values("cursor", found.Next).Encode()
		}
		if extend := extensions[about.Name]; extend != nil {
			extend(v, found.Items, &page)
		}
		page.Choices = permitted(v.person, page.Choices)
		return s.render(v, http.StatusOK, "list", about.Title, page)
	}
}

// csv writes a list as a file. It writes nothing before the file is complete, so that a person never gets an incomplete
// file. At most [filesAtOnce] files are in memory.
func (s *Server) csv(v *visit, l resource.List, env resource.Env, q resource.Query) error {
	select {
	case s.filing <- struct{}{}:
		defer func() { <-s.filing }()
	case <-v.ctx().Done():
		return v.ctx().Err()
	}
	var file bytes.Buffer
	q.Cursor = ""
	if err := resource.CSV(v.ctx(), l, env, q, resource.MostRows, &file); err != nil {
		return err
	}
	v.Response().Header().Set("Content-Disposition",
		fmt.Sprintf("attachment; filename=%q", fmt.Sprintf("pawl-%s-%s.csv", l.About().Name,
			time.Now().UTC().Format("2006-01-02-1504"))))
	return v.Blob(http.StatusOK, "text/csv; charset=utf-8", file.Bytes())
}

// filesAtOnce is the maximum number of CSV files that the console prepares at once.
const filesAtOnce = 2

// extensions add parts to a list that only the console shows: decisions and further tables.
var extensions = map[string]func(v *visit, items any, page *listPage){
	"events": func(v *visit, items any, page *listPage) {
		if given, err := criteria(v); err == nil { // the list has checked the times
			page.Many = manyButtons(v.person, given)
		}
		page.Rows.markNotGranted(items.([]timeline.Receipt))
	},
	// The kind of each task is in words and links to the task. The object links to its data.
	"tasks": func(_ *visit, items any, page *listPage) {
		for i, t := range items.([]billingaccount.Task) {
			row := page.Rows.Rows[i]
			row[0].Text, row[0].Href = label.TaskTitle(t.Kind), "/tasks/"+url.PathEscape(t.Object)
			if j := slices.Index(page.Rows.Head, "OBJECT"); j > 0 {
				id := t.ID()
				row[j].Text, row[j].Href = cmp.Or(t.Number, id), "/find?q="+url.QueryEscape(id)
			}
			for j := range row {
				if row[j].Head == "TITLE" {
					row[j].Text, row[j].Parts = brief(row[j].Text), nil
				}
			}
		}
	},
	// Each object links to the decision that assigns it.
	"unassigned-payments": func(v *visit, items any, page *listPage) {
		if !v.person.May(operator.Verbs.Named(money.Assign.Name).Rights()...) {
			return
		}
		for i, m := range items.([]billing.Money) {
			for j := range page.Rows.Rows[i] {
				if cell := &page.Rows.Rows[i][j]; cell.Head == "ID" {
					cell.Href = decideHref(decide.Decision{Verb: money.Assign.Name, Target: m.ID,
						Args: decide.Args{Mode: m.Mode}})
				}
			}
		}
	},
	// Each waiting decision links to the page that confirms it.
	"approvals": func(v *visit, items any, page *listPage) {
		links := []cell{}
		for _, p := range items.([]pending.Decision) {
			b := permitted(v.person, []button{confirmButton(v.person, p)})[0]
			if b.Denied != "" {
				links = append(links, cell{Text: b.Denied})
				continue
			}
			links = append(links, cell{Text: b.Label, Href: b.Href})
		}
		page.Rows = page.Rows.with("DECISION", links)
	},
	// Each unclear e-mail links to the decision that sends it again.
	"emails": func(v *visit, items any, page *listPage) {
		page.Rows = withResends(v.person, page.Rows, items.([]timeline.Email))
	},
	// Each reason has a next step, and each complete request links to the decision that admits it.
	"rejections": func(v *visit, items any, page *listPage) {
		found := items.([]rejection.Shown)
		classes := map[string]bool{}
		links := make([]cell, len(found))
		may := v.person.May(rejection.Admit.Rights()...)
		for i, r := range found {
			classes[r.Class] = true
			if may && r.AdmittedAt == nil && !r.Truncated {
				links[i] = cell{Text: label.Verb(rejection.Admit.Name),
					Href: decideHref(decide.Decision{Verb: rejection.Admit.Name, Target: r.ID})}
			}
		}
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			page.Notes = append(page.Notes, [2]cell{{Text: label.Refusal(class)}, {Text: label.RefusalNext(class)}})
		}
		if may {
			page.Rows = page.Rows.with("DECISION", links)
		}
	},
	"sinks": func(_ *visit, items any, page *listPage) {
		sinks := items.([]report.Sink)
		page.More, page.Decides = newTable(tables.Took(sinks)), "Pause and resume"
		for _, s := range sinks {
			page.Choices = append(page.Choices, placeButton(s.State == "paused", decide.Sink, s.Name))
		}
	},
	// The number of events links to their list.
	"outages": func(_ *visit, items any, page *listPage) {
		for i, o := range items.([]breaker.Outage) {
			for j := range page.Rows.Rows[i] {
				if cell := &page.Rows.Rows[i][j]; cell.Head == "EVENTS" {
					q := url.Values{"outage": {strconv.FormatInt(o.ID, 10)}, "mode": {o.Mode}}
					cell.Href = "/events?" + q.Encode()
				}
			}
		}
	},
	"sources": func(_ *visit, items any, page *listPage) {
		sources := items.([]report.Source)
		page.More, page.Decides = newTable(tables.Traffic(sources)), "Pause and resume"
		for _, s := range sources {
			page.Choices = append(page.Choices, placeButton(s.Paused != "", decide.Source, s.Name))
		}
	},
	// If policy.four_eyes is set, two people apply proposed rules here.
	"rules": func(_ *visit, items any, page *listPage) {
		page.Decides = "Apply"
		for _, version := range items.([]billing.RulesVersion) {
			if !version.Active {
				page.Choices = append(page.Choices, button{Label: "Apply " + version.Hash,
					Effect: "shows the changed settings and accounts, and then activates the rules",
					Verb:   rules.Apply.Name,
					Href:   decideHref(decide.Decision{Verb: rules.Apply.Name, Target: version.Hash})})
			}
		}
	},
	// Each name links to its changes.
	"people": func(_ *visit, items any, page *listPage) {
		for i, p := range items.([]people.Listed) {
			page.Rows.Rows[i][0].Href = "/audit?" + url.Values{"target": {p.Name}}.Encode()
		}
	},
	"tokens": func(_ *visit, items any, page *listPage) {
		page.Decides = "Create and revoke"
		page.Choices = []button{{Label: "New token", Effect: "creates a token and shows it once",
			Href: decideHref(decide.Decision{Verb: tokens.New.Name})}}
		for _, t := range items.([]token.Token) {
			if t.RevokedAt == nil {
				page.Choices = append(page.Choices, button{Label: "Revoke " + t.Name, Effect: "ends it at once",
					Grave: true, Href: decideHref(decide.Decision{Verb: tokens.Revoke.Name, Target: t.Name})})
			}
		}
	},
}

// withResends adds a column with the decisions that send an e-mail again. It returns the same table if the person may
// not make them, or if no e-mail accepts them.
func withResends(p *decide.Person, t shownTable, emails []timeline.Email) shownTable {
	if !p.May(event.Resend.Rights()...) {
		return t
	}
	links, some := make([]cell, len(emails)), false
	for i, e := range emails {
		if d := event.ResendOf(e); d != nil {
			links[i].Text, links[i].Href, some = label.Verb(d.Verb), decideHref(*d), true
		}
	}
	if !some {
		return t
	}
	return t.with("DECISION", links)
}

// taskPage shows the tasks about an object.
type taskPage struct {
	Object string
	Tasks  []taskShown
}

type taskShown struct {
	task.Shown
	// About is the account, the amount and the kind of the task.
	About   []cell
	Head    [][2]cell
	Actions shownTable
	Choices []button
}

// taskHead returns the fields of a task with its kind in words.
func taskHead(t task.Shown) output.Table {
	head := slices.Clone(tables.TaskHead(t))
	head[0] = []any{"task", label.TaskTitle(t.Kind) + " (" + t.Mode + ")"}
	return head
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
		shown := taskShown{Shown: t, About: cells(tables.TaskSubject(t.Task)), Head: pairs(taskHead(t)),
			Actions: newTable(tables.TaskActions(t))}
		switch {
		case t.State != fold.TaskOpen:
		case t.Kind == billing.TaskReview:
			shown.Choices = []button{{Label: "Answer the review", Effect: "decides about its event",
				Href: "/events/" + url.PathEscape(t.Event)}}
		default:
			for _, name := range []string{task.Take.Name, task.Note.Name, task.Close.Name} {
				verb := operator.Verbs.Named(name)
				d := decide.Decision{Verb: name, Target: t.Object, Args: decide.Args{Kind: t.Kind, Mode: t.Mode}}
				shown.Choices = append(shown.Choices, button{Label: label.Verb(name),
					Effect: verb.Short, Verb: name, Href: decideHref(d)})
			}
			answers := map[string]string{billing.TaskEntry: money.Correct.Name,
				fold.TaskCorrection: money.Regrant.Name}
			if name := answers[t.Kind]; name != "" {
				verb := operator.Verbs.Named(name)
				d := decide.Decision{Verb: name, Target: t.Object, Args: decide.Args{Mode: t.Mode}}
				shown.Choices = append(shown.Choices, button{Label: label.Verb(name), Effect: verb.Short, Verb: name,
					Href: decideHref(d)})
			}
		}
		shown.Choices = permitted(v.person, shown.Choices)
		page.Tasks = append(page.Tasks, shown)
	}
	return s.render(v, http.StatusOK, "task", "Tasks about "+object, page)
}

// jobPage shows a job and its progress.
type jobPage struct {
	*jobs.Details
	// Result counts the events by their present state.
	Result  string
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
	page := jobPage{Details: d, Result: tables.JobResult(d), Head: pairs(parts[0]), Rows: newTable(parts[1])}
	names := map[job.State][]string{job.Running: {"pause-job", "cancel-job"},
		job.Paused: {"resume-job", "cancel-job"}}[d.State]
	for _, name := range names {
		page.Choices = append(page.Choices, button{Label: label.Verb(name),
			Effect: operator.Verbs.Named(name).Short, Verb: name,
			Href: decideHref(decide.Decision{Verb: name, Target: d.ID}), Grave: name == "cancel-job"})
	}
	page.Choices = permitted(v.person, page.Choices)
	return s.render(v, http.StatusOK, "job", "Job "+d.ID, page)
}

// placeButton pauses a sink or a source, or resumes it if it is paused.
func placeButton(paused bool, kind, name string) button {
	verb := "pause"
	if paused {
		verb = "resume"
	}
	d := decide.Decision{Verb: verb + "-" + kind, Target: name}
	return button{Label: label.Place(verb, kind, name), Effect: operator.Verbs.Named(d.Verb).Short, Verb: d.Verb,
		Href: decideHref(d), Grave: verb == "pause"}
}
