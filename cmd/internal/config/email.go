package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
)

// Email configures the content of e-mails to customers. The sink of the same name configures the mail server.
type Email struct {
	// Templates is a directory of templates, NAME.LANGUAGE.txt, that override the built-in ones.
	Templates string `yaml:"templates" form:"path"`
	// Language selects the templates.
	Language string `yaml:"language" default:"en"`
	// Disabled lists the e-mails that are not sent.
	Disabled []string `yaml:"disabled"`
	// Delay is how long an e-mail about a state is delayed, because other events may still change the state.
	Delay time.Duration `yaml:"delay" default:"1m" min:"1ms"`

	// Set contains the parsed templates.
	Set *letters.Set `yaml:"-"`
}

func (e *Email) check(c *checker, _ string) {
	for i, name := range e.Disabled {
		if !slices.Contains(letters.Names(), name) {
			c.bad(fmt.Sprintf("email.disabled[%d]", i), fmt.Sprintf("%q is not an e-mail", name),
				"write one of "+strings.Join(letters.Names(), ", "))
		}
	}
	set, err := letters.Load(e.Templates, e.Language, append(c.cfg.Policy.Emails.off(), e.Disabled...))
	if err != nil {
		for problem := range strings.Lines(err.Error()) {
			c.fault("email.templates", c.lines["email.templates"], strings.TrimSpace(problem),
				"correct the file, or write the name of the e-mail in email.disabled")
		}
	}
	e.Set = set
}
