package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
)

// Mail configures the e-mails to customers.
type Mail struct {
	// Templates is a directory of templates, NAME.LANGUAGE.txt, that override the built-in ones.
	Templates string `yaml:"templates" form:"path"`
	// Language selects the templates.
	Language string `yaml:"language" default:"en"`
	// Letters switches e-mails "on" (default) or "off".
	Letters map[string]string `yaml:"letters" oneof:"on off"`
	// Settle is how long an e-mail about a state waits for events that change the state.
	Settle time.Duration `yaml:"settle" default:"1m" min:"1ms"`

	// Set contains the parsed templates.
	Set *letters.Set `yaml:"-"`
}

func (m *Mail) check(c *checker, _ string) {
	off := c.cfg.Policy.Letters.off()
	for _, name := range slices.Sorted(maps.Keys(m.Letters)) {
		if !slices.Contains(letters.Names(), name) {
			c.bad("mail.letters."+name, "is not an e-mail", "write one of "+strings.Join(letters.Names(), ", "))
		}
		if m.Letters[name] == "off" {
			off = append(off, name)
		}
	}
	set, err := letters.Load(m.Templates, m.Language, off)
	if err != nil {
		for problem := range strings.Lines(err.Error()) {
			c.fault("mail.templates", c.lines["mail.templates"], strings.TrimSpace(problem),
				"correct the file, or switch the e-mail off under mail.letters")
		}
	}
	m.Set = set
}
