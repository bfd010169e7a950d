package console

import (
	"log/slog"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/parameter"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// Route is a route for tests of all routes.
type Route struct {
	Method, Path string
	Needs        role.Right
	Takes        parameter.Rule
}

// Routes returns all routes of a console.
func Routes(cfg *config.Config) (all []Route) {
	s, err := New(Options{Config: cfg, Operator: &decide.Operator{Verbs: operator.Verbs}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	for _, r := range s.routes() {
		all = append(all, Route{r.method, r.path, r.needs, r.takes})
	}
	return all
}

// Sentence returns the parts of a sentence on a page. It writes a time as "TIME".
func Sentence(text string) (parts []string) {
	for _, part := range sentence(text) {
		if part.When != nil {
			part.Text = "TIME"
		}
		parts = append(parts, part.Text)
	}
	return parts
}
