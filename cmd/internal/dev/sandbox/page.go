package sandbox

import (
	"html/template"
	"net/http"
	"slices"
)

// shown is the number of records of a service on the page, newest first.
const shown = 50

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="5">
<title>pawl: the outside world</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c2733; }
h2 { margin-bottom: .3rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #dde3ea; vertical-align: top; }
code { overflow-wrap: anywhere; }
.again { color: #6b7785; }
</style>
</head>
<body>
<h1>The outside world</h1>
<p>What pawl's effects did to the systems around it. Each line is one accepted request; a grey one was
answered from memory because its key had been used before, so it changed nothing.</p>
{{range .}}<h2>{{.Title}}</h2>
<p>{{.First}} done, {{.Again}} repeated</p>
{{if .Records}}<table>
<tr><th>at (UTC)</th><th>account</th><th>key</th><th>body</th></tr>
{{range .Records}}<tr{{if not .First}} class="again"{{end}}><td>{{.At.Format "2006-01-02 15:04:05"}}</td><td>{{.Account}}</td><td><code>{{.Key}}</code></td><td><code>{{printf "%s" .Body}}</code></td></tr>
{{end}}</table>{{end}}
{{end}}</body>
</html>
`))

type section struct {
	Title        string
	First, Again int
	Records      []record
}

// page renders the received requests.
func (s *Sandbox) page(w http.ResponseWriter, _ *http.Request) {
	var sections []section
	for _, service := range []struct{ name, title string }{
		{email, "Mail inbox"}, {workspaces, "Workspaces"}, {finance, "Finance entries"}, {events, "Internal events"},
		{relayed, "Relayed events"}, {flowSinks, "Sinks of flows"}, {notifications, "Notifications to people"},
		{stripe, "Events that Stripe's API knows"},
	} {
		told := s.journals[service.name]
		if service.name == stripe {
			told = s.stripe.told
		}
		records := told.all()
		sec := section{Title: service.title}
		for _, rec := range records {
			if rec.First {
				sec.First++
			} else {
				sec.Again++
			}
		}
		sec.Records = slices.Clone(records[max(0, len(records)-shown):])
		slices.Reverse(sec.Records)
		sections = append(sections, sec)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	if err := pageTemplate.Execute(w, sections); err != nil {
		s.log.Warn("sandbox page", "error", err) // the client has disconnected
	}
}
