package console

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/operator/sink"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/cmd/internal/operator/token"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
)

// decisionPage shows the preview of a decision, and asks for the reason. After the decision it shows the result.
type decisionPage struct {
	*decide.Verb
	Target string
	// Title is the decision in words, and About its subject: the account, the invoice number and the amount.
	Title  string
	About  []cell
	Fields []field
	// Asking is set if the form only completes the decision: it is sent by GET and leads to the preview.
	Asking bool
	// Change is the address of the form in which the person can change the fields. It is "" if the verb has no fields.
	Change string
	// Many is set for a decision about many events, and Filter is their query.
	Many   bool
	Filter []field
	// Request is the idempotency key: a form that is sent twice makes one decision.
	Request string
	// Refused is the reason if the decision would be refused, and Choices are the alternatives. Requested is set if the
	// person requested the decision, and another person must confirm it.
	Refused   string
	Choices   []button
	Requested bool
	// Denied is the reason why the person may not confirm a job, or "".
	Denied string
	// Warning is a reason to check the decision once more.
	Warning string
	// FourEyes is set if the decision needs two people. Pending is the ID of the decision that the second person
	// confirms, and Withdraw is the link to withdraw that decision.
	FourEyes, Pending, Withdraw string
	// Question is the question of a review, and Consequence the consequence of the answer.
	Question, Consequence string
	Facts                 [][2]cell
	// Later is the address of the same page with its Facts. It is set if the Facts take seconds, so that a script loads
	// them afterwards.
	Later string
	Table *shownTable
	// Rules are the changes of a decision that activates other billing rules: the settings, and the first of the
	// affected accounts. MoreAccounts is the number of further accounts.
	Rules        []shownTable
	MoreAccounts int
	// Message is the result of the decision, and Follow a link to its subject. Shown is a new token, which is shown
	// only once.
	Message, Follow, Shown string
	// Waits is set if the decision waits for a second person.
	Waits bool
}

// field is a field of the form.
type field struct {
	Name, Label, Value string
	Required           bool
	// Shown is the text of a fixed field that people read instead of the value.
	Shown string
	// Fixed is set if the preview depends on the value: the form sends it and does not let the person edit it.
	Fixed bool
}

// decisionOf reads a decision from the query or the form.
func decisionOf(v *visit) (decide.Decision, *decide.Verb, error) {
	d := decide.Decision{Verb: v.FormValue("verb"), Target: strings.TrimSpace(v.FormValue("target")), By: v.person,
		Reason: v.FormValue("reason"), Request: v.FormValue("request"), Confirms: v.FormValue("pending")}
	verb := operator.Verbs.Named(d.Verb)
	if verb == nil || verb.Command == "" {
		return d, nil, &problem{http.StatusNotFound, "This decision does not exist", d.Verb}
	}
	if !v.person.May(verb.Rights()...) {
		return d, nil, decide.Forbids(verb.Name, verb.Rights()...)
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
	if page.About, err = s.subjectOf(v, d); err != nil {
		return err
	}
	if page.asks(v, d.Target == "") {
		return s.render(v, http.StatusOK, "decide", page.Title, page)
	}
	p, err := s.Operator.Preview(v.ctx(), d)
	if err != nil {
		return err
	}
	if verb.Name == event.Resend.Name {
		word, _, err := event.Confirmation(v.ctx(), s.Operator.DB, &p.Receipt, d.Effect)
		if err != nil {
			return err
		}
		page.confirms(word)
	}
	page.Refused, page.Choices, page.Requested = p.Refused, permitted(v.person, buttons(p.Choices)), p.Requested
	if p.Refused == "" {
		page.preview(p)
	}
	if r := p.Receipt; r.ID != "" && (verb.Name == event.Approve.Name || verb.Name == event.Reject.Name) {
		page.Question, page.Consequence, _ = event.Question(&r, verb.Name)
	}
	return s.render(v, http.StatusOK, "decide", page.Title, page)
}

// subjectOf returns the subject of a decision for the heading. It returns nil if the target does not exist, because the
// preview reports that.
func (s *Server) subjectOf(v *visit, d decide.Decision) ([]cell, error) {
	parts, err := tables.SubjectOf(v.ctx(), s.Operator, d)
	if decide.IsFault(err, decide.Unknown) || decide.IsFault(err, decide.Ambiguous) {
		return nil, nil
	}
	return cells(parts), err
}

func newDecisionPage(v *visit, d decide.Decision, verb *decide.Verb) decisionPage {
	page := decisionPage{Verb: verb, Target: d.Target, Title: label.Verb(verb.Name), Request: rand.Text()}
	for _, f := range verb.Flags {
		one := field{Name: f.Name, Label: cmp.Or(label.Field(f.Name), strings.ReplaceAll(f.Usage, "`", "")),
			Value: *f.Value(&d.Args), Required: f.Required}
		if f.Name == effectField && one.Value != "" {
			kind, _, _ := strings.Cut(one.Value, ":")
			one.Shown, page.Title = label.KindOf(kind).Name, label.Step(verb.Name, kind)
		}
		page.Fields = append(page.Fields, one)
	}
	return page
}

// asks reports whether the form must request fields before the preview: a field is missing, or the person wants to
// change a field. Otherwise asks fixes the fields, because the preview is about their values.
func (p *decisionPage) asks(v *visit, missing bool) bool {
	if p.Asking = missing || lacks(p.Fields) || v.FormValue("preview") == previewLater; p.Asking {
		p.Fields = slices.DeleteFunc(p.Fields, func(f field) bool { return f.Name == confirmField })
		return true
	}
	if len(p.Fields) > 0 && v.FormValue("pending") == "" {
		query := v.QueryParams()
		query.Set("preview", previewLater)
		p.Change = v.Request().URL.Path + "?" + query.Encode()
	}
	for i := range p.Fields {
		p.Fields[i].Fixed = p.Fields[i].Name != confirmField
	}
	p.Fields = slices.DeleteFunc(p.Fields, func(f field) bool { return f.Fixed && f.Value == "" })
	return false
}

// confirms sets the word that the person types to confirm the decision.
func (p *decisionPage) confirms(word string) {
	for i := range p.Fields {
		if p.Fields[i].Name == confirmField {
			p.Fields[i].Label, p.Fields[i].Required = "Type "+word+" to send it a second time", true
		}
	}
}

const (
	// effectField is the key of the effect that the decision is about.
	effectField = "effect"
	// confirmField is the confirmation of a resend. The person types it after the preview.
	confirmField = "confirm"
	// previewLater is the value of the parameter preview that requests the fields again.
	previewLater = "later"
)

var reasonMissing = &problem{http.StatusBadRequest, "The reason is missing",
	"The audit trail stores the reason. Go back and enter it."}

// lacks reports whether a required field is empty.
func lacks(fields []field) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.Required && f.Value == "" })
}

// preview fills the page with a preview.
func (p *decisionPage) preview(of *decide.Preview) {
	p.needsTwo(of.FourEyes, of.Pending)
	p.Warning = of.Warning
	if of.Receipt.ID == "" && of.Access == nil {
		p.Facts = pairs(output.Table{{"then", cmp.Or(of.Message, "it is done")}})
		if r := of.Rules; r != nil {
			p.Rules = []shownTable{newTable(tables.RulesSettings(r.Settings)),
				newTable(tables.RulesAccounts(r.Accounts))}
			p.MoreAccounts = r.Affected - len(r.Accounts)
		}
		return
	}
	var rows output.Table
	if len(of.Effects) > 0 || len(of.Consequences) == 0 {
		t := newTable(tables.Effects(of.Effects)).without("KEY")
		p.Table = &t
		rows = output.Table{{"this decision", tables.Consequence(of)}}
	}
	rows = append(rows, tables.ConsequenceRows(of.Consequences)...)
	if of.WaitsFor != "" {
		rows = append(rows, []any{"its run waits first", of.WaitsFor})
	}
	rows = append(rows, []any{"then", tables.Then(of)})
	p.Facts = pairs(rows)
}

// needsTwo shows that the decision needs two people. The form of the second person confirms the pending decision.
func (p *decisionPage) needsTwo(notice string, confirms *pending.Decision) {
	p.FourEyes = notice
	if confirms != nil {
		p.Pending = confirms.ID
		p.Withdraw = decideHref(decide.Decision{Verb: decide.Withdraw.Name, Target: confirms.ID})
	}
}

// decide makes a decision. A form that is sent twice is one decision, and the second page reports that.
func (s *Server) decide(v *visit) error {
	d, verb, err := decisionOf(v)
	if err != nil {
		return err
	}
	page := newDecisionPage(v, d, verb)
	if strings.TrimSpace(d.Reason) == "" {
		return reasonMissing
	}
	if lacks(page.Fields) {
		return &problem{http.StatusBadRequest, "A field is missing", "Go back and fill in every field that is marked."}
	}
	if verb.Name == event.Resend.Name {
		if d.Confirm == "" {
			return &problem{http.StatusBadRequest, "The confirmation is missing",
				"If the step has happened, it will happen twice. Go back and fill in the confirmation."}
		}
		if err := event.Confirm(v.ctx(), s.Operator.DB, &d); err != nil {
			return err
		}
	}
	answer, err := s.Operator.Decide(v.ctx(), d)
	if err != nil {
		return err
	}
	page.told(answer)
	return s.render(v, http.StatusOK, "decide", page.Title, page)
}

// told adds the result of a decision and its links to the page.
func (p *decisionPage) told(answer *decide.Answer) {
	p.Message, p.Warning = answer.Message, answer.Warning
	if answer.Pending != nil {
		p.Waits, p.Follow = true, "/approvals"
	}
	switch r := answer.Result.(type) {
	case *event.Result:
		p.Follow = "/events/" + url.PathEscape(r.Receipt)
	case *account.Result:
		p.Follow = accountHref(r.Mode, r.Account)
	case *money.AssignResult:
		if p.Follow = accountHref(r.Mode, r.AssignedTo); r.WaitsFor != "" {
			p.Follow = "/events/" + url.PathEscape(r.WaitsFor)
		}
	case *rejection.Admission:
		if len(r.Receipts) > 0 {
			p.Follow = "/events/" + url.PathEscape(r.Receipts[0].ID)
		}
	case *job.Job:
		p.Follow = "/jobs/" + url.PathEscape(r.ID)
	case *task.Result:
		p.Follow = "/tasks/" + url.PathEscape(answer.Target)
	case *sink.PauseResult:
		p.Follow = "/sinks"
	case *token.Result:
		p.Follow, p.Shown = "/tokens", r.Token
	}
}
