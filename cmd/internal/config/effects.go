package config

import "time"

// Effects configures when effects begin.
type Effects struct {
	// From is when effects begin for a mode that starts for the first time: now, off, or a time. The database stores
	// this time, and later changes of the file have no effect.
	From string `yaml:"from" default:"now"`
}

// Keywords for [Effects.From].
const (
	EffectsNow = "now"
	EffectsOff = "off"
)

// check rejects a value that is neither a keyword nor a time.
func (e *Effects) check(c *checker, _ string) {
	if _, err := time.Parse(time.RFC3339, e.From); err != nil && e.From != EffectsNow && e.From != EffectsOff {
		c.bad("effects.from", "is not a time", "write now, off, or a time such as 2026-12-01T00:00:00Z")
	}
}

// Modes returns the modes of the sources.
func (c *Config) Modes() (modes []string) {
	for _, mode := range []string{"live", "test"} {
		for _, s := range c.Sources {
			if s.Mode == "" || string(s.Mode) == mode {
				modes = append(modes, mode)
				break
			}
		}
	}
	return modes
}
