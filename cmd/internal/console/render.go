package console

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/tables"
)

//go:embed templates static
var files embed.FS

// pages are the templates by name.
type pages struct{ byName map[string]*template.Template }

func newPages() (*pages, error) {
	p := &pages{byName: map[string]*template.Template{}}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		page := strings.TrimSuffix(path.Base(name), ".html")
		if page == "layout" || page == "parts" {
			continue
		}
		t, err := template.New("layout.html").Funcs(functions).
			ParseFS(files, "templates/layout.html", "templates/parts.html", name)
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		p.byName[page] = t
	}
	return p, nil
}

var functions = template.FuncMap{
	"when":   func(t time.Time) when { return when{t, time.Now()} },
	"plural": output.Plural,
	"lower":  strings.ToLower,
	"word":   label.Word,
	"short":  func(id string) template.HTML { return breaks(output.Middle(brief(id))) },
	"breaks": breaks,
	"brief":  brief,
	"money":  tables.GroupMoney,
	"text":   func(text string) cell { return newCell("", text) },
	"badge":  func(word string) string { return badges[word] },
	"find":   func(text string) string { return "/find?q=" + template.URLQueryEscaper(text) },
}

// view is the data that every page has.
type view struct {
	Title  string
	Page   string
	Person *decide.Person
	Dev    bool
	Data   any
	// Lists are the lists that the person may read.
	Lists []*resource.Description
	// Query is the text of the search field. Refreshes is set if the page reloads itself.
	Query     string
	Refreshes bool
}

// render writes a page. If the template fails, it writes nothing.
func (s *Server) render(v *visit, status int, name, title string, data any) error {
	var page bytes.Buffer
	shown := view{Title: title, Page: name, Person: v.person, Dev: s.Config.Dev.Enabled,
		Data: data, Query: v.QueryParam("q")}
	for _, l := range resource.All {
		if about := l.About(); v.person != nil && v.person.May(about.Right) && !about.Part {
			shown.Lists = append(shown.Lists, about)
		}
	}
	if r, renews := data.(interface{ renews() bool }); renews {
		shown.Refreshes = r.renews()
	}
	t, known := s.pages.byName[name]
	if !known {
		return fmt.Errorf("there is no page %q", name)
	}
	if err := t.Execute(&page, shown); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	return v.HTMLBlob(status, visible(page.Bytes()))
}

// visible replaces characters that would hide or reverse the text beside them: control characters and characters that
// change the direction of writing. Templates escape markup, and the pages themselves do not contain these characters.
func visible(page []byte) []byte {
	if !bytes.ContainsFunc(page, deceptive) {
		return page
	}
	var clean bytes.Buffer
	for _, r := range string(page) {
		if deceptive(r) {
			clean.WriteString(output.Escape(r))
		} else {
			clean.WriteRune(r)
		}
	}
	return clean.Bytes()
}

func deceptive(r rune) bool { return output.Hidden(r) && r != '\n' && r != '\t' && r != '\r' }

// problem is the text of an error page.
type problem struct {
	status     int
	what, more string
}

func (p *problem) Error() string { return p.what + ": " + p.more }

// failurePage is the data of an error page.
type failurePage struct {
	What, More string
	Choices    []button
	// Events lists the events that an ambiguous ID can mean.
	Events *shownTable
}

// fail writes the error page. An internal error is logged, and its page refers to the log.
func (s *Server) fail(err error, c echo.Context) {
	v := &visit{Context: c}
	v.person, _ = c.Get("person").(*decide.Person)
	status, page := s.explain(err)
	page.Choices = permitted(v.person, page.Choices)
	if status >= http.StatusInternalServerError {
		s.Log.ErrorContext(v.ctx(), "a page failed", "path", c.Path(), "error", err)
	}
	if c.Response().Committed {
		return
	}
	if err := s.render(v, status, "failure", page.What, page); err != nil {
		s.Log.ErrorContext(v.ctx(), "the page of an error failed", "error", err)
		_ = c.String(http.StatusInternalServerError, page.What)
	}
}

func (s *Server) explain(err error) (int, failurePage) {
	var refused *decide.RefusedError
	var fault *decide.Fault
	var lacking *forbidden
	var told *problem
	var of *echo.HTTPError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &refused):
		return http.StatusConflict, failurePage{What: refused.Verb + " was refused",
			More: refused.Target + " " + refused.Reason, Choices: buttons(refused.Try)}
	case errors.As(err, &fault):
		return explainFault(fault)
	case errors.As(err, &lacking):
		return http.StatusForbidden, failurePage{What: "You do not have permission for this", More: lacking.Error()}
	case errors.As(err, &told):
		return told.status, failurePage{What: told.what, More: told.more}
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, failurePage{What: "The request is too large",
			More: "Send 64 KiB at most."}
	case errors.As(err, &of):
		return of.Code, failurePage{What: http.StatusText(of.Code), More: "This page does not exist."}
	case isTimeout(err):
		return http.StatusGatewayTimeout, failurePage{What: "This took too long",
			More: "The database or Temporal did not answer in time. Check the current state before you repeat the action."}
	case decide.Away(err):
		return http.StatusServiceUnavailable, failurePage{What: "The database does not answer",
			More: "Meanwhile, pawl answers webhooks with 503, and the providers retry them. Reload this page later."}
	}
	return http.StatusInternalServerError, failurePage{What: "This page failed",
		More: "The log of pawl console has the error: " + output.FirstLine(err)}
}

func explainFault(f *decide.Fault) (int, failurePage) {
	switch f.Kind {
	case decide.Unknown:
		return http.StatusNotFound, failurePage{What: "Nothing was found", More: f.Message}
	case decide.Forbidden:
		return http.StatusForbidden, failurePage{What: "You do not have permission for this", More: f.Message}
	case decide.Later:
		return http.StatusGatewayTimeout, failurePage{What: "There is no answer yet",
			More: f.Message + "\nYou can send the same form again: pawl does not decide a second time."}
	case decide.Ambiguous:
		if f.Receipts == nil {
			return http.StatusMultipleChoices, failurePage{What: "Several objects have this ID", More: f.Message}
		}
		t := newReceipts(f.Receipts)
		return http.StatusMultipleChoices, failurePage{What: "Several events have this ID", More: f.ID, Events: &t}
	}
	return http.StatusBadRequest, failurePage{What: "The request is invalid", More: f.Message}
}

// static serves styles and scripts. Browsers revalidate them on each request, because a new binary has new files.
func (s *Server) static(v *visit) error {
	name := v.Param("name")
	content, err := files.ReadFile("static/" + path.Base(name))
	if err != nil {
		return echo.ErrNotFound
	}
	v.Response().Header().Set("Cache-Control", "max-age=300")
	http.ServeContent(v.Response(), v.Request(), name, time.Time{}, bytes.NewReader(content))
	return nil
}
