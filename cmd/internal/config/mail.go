package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
)

// Mail says what customers are written.
type Mail struct {
	// Templates is a directory of letters, NAME.LANGUAGE.txt, that stand in for the built-in ones.
	Templates string `yaml:"templates" form:"path"`
	// Language chooses the letters.
	Language string `yaml:"language" default:"en"`
	// Letters says which are "on" (default) and "off".
	Letters map[string]string `yaml:"letters" oneof:"on off"`
	// Settle is how long a letter that tells a state waits for events that make it untrue.
	Settle time.Duration `yaml:"settle" default:"1m" min:"1ms"`

	// Set is what Load has read.
	Set *letters.Set `yaml:"-"`
}

func (m *Mail) check(c *checker, _ string) {
	off := c.cfg.Policy.Letters.off()
	for _, name := range slices.Sorted(maps.Keys(m.Letters)) {
		if !slices.Contains(letters.Names(), name) {
			c.bad("mail.letters."+name, "is no letter", "write one of "+strings.Join(letters.Names(), ", "))
		}
		if m.Letters[name] == "off" {
			off = append(off, name)
		}
	}
	set, err := letters.Load(m.Templates, m.Language, off)
	if err != nil {
		for problem := range strings.Lines(err.Error()) {
			c.fault("mail.templates", c.lines["mail.templates"], strings.TrimSpace(problem),
				"mend the file, or turn the letter off under mail.letters")
		}
	}
	m.Set = set
}
