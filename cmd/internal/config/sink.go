package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Sinks are the outside systems that effects reach. None is required: effects of a sink that is not configured are
// skipped.
type Sinks struct {
	Workspaces  HTTPSink     `yaml:"workspaces"`
	Finance     HTTPSink     `yaml:"finance"`
	Email       EmailSink    `yaml:"email"`
	Subscribers []Subscriber `yaml:"subscribers"`
}

// Sending configures how effects are sent to a sink or a consumer.
type Sending struct {
	// Timeout bounds one request. E-mail has another default.
	Timeout time.Duration `yaml:"timeout" default:"10s" min:"0s"`
	Retries Retries       `yaml:"retries"`
	// Bounds isolate the sink from other sinks.
	Bounds `yaml:",inline"`
	// Effects is "local" (try as a local activity first) or "activity".
	Effects string `yaml:"effects" default:"local" oneof:"local activity"`
	// Owner is the contact for problems of the sink.
	Owner string `yaml:"owner"`
}

// Bounds limit how much of a worker one sink or consumer can use.
type Bounds struct {
	// Places is the maximum number of effects in flight per worker process (and per mode, if the sink is separate per
	// mode). The default is sufficient for a responsive sink: at 100 ms per request, 16 are 160 effects per second in
	// one process, and a worker on two cores runs about a hundred events. It is low enough for a mail server, and for
	// a small API that recovers with many waiting effects.
	Places int `yaml:"places" default:"16" min:"1" max:"1000"`
	// Rate is the maximum number of effects that start per second in each worker process; default unlimited.
	Rate int `yaml:"rate" min:"1" fix:"write the number of effects per second, or leave it out for no limit"`
}

// emailTimeout is the default for e-mail. RFC 5321 §4.5.3.2 allows minutes, but a worker does not wait that long.
const emailTimeout = 30 * time.Second

// Sink is a sink or a consumer of any protocol. Gates, settings, reports and checks are derived from it.
type Sink struct {
	// Name is the name in the catalogue. The name of a consumer begins with "consumers:", and of a notification sink
	// with "notify:".
	Name string
	// Key is its key in the file.
	Key string
	Sending
	// KeyLifetime is how long it remembers an idempotency key. Zero means that it has no such keys.
	KeyLifetime time.Duration
	// Credentials describes the credentials of pawl for each served mode. It is empty if the sink is not configured.
	Credentials map[string]string
	// PerMode is set if live and test are served separately, each with a name, gate and breaker of its own.
	PerMode bool
	// Exactly one of these is set, according to the protocol of the sink.
	HTTP     *HTTPSink
	Email    *EmailSink
	Consumer *Consumer
	Notify   *NotifySink
}

// Served is a sink under the name of its gate, breaker, pause and reports: the name of the sink, with the mode if it
// is separate per mode.
type Served struct {
	Name string
	// Mode is one of the modes served under the name.
	Mode string
	// Credentials describes the credentials of pawl.
	Credentials string
	Sink        Sink
}

// ForMode returns the name of the sink for a mode.
func (s Sink) ForMode(mode string) string {
	if s.PerMode {
		return s.Name + ":" + mode
	}
	return s.Name
}

// Served returns the configured sinks and consumers by name.
func (c *Config) Served() (served []Served) {
	for _, s := range c.AllSinks() {
		for _, mode := range slices.Sorted(maps.Keys(s.Credentials)) {
			if s.PerMode || mode == string(webhook.Test) { // a sink for both modes is checked with test
				served = append(served, Served{s.ForMode(mode), mode, s.Credentials[mode], s})
			}
		}
	}
	return served
}

// sections lists the sinks by name. A sink that is not listed has no effects.
func (s *Sinks) sections() []sinkSection {
	return []sinkSection{{"workspaces", &s.Workspaces}, {"finance", &s.Finance}, {"email", &s.Email}}
}

type sinkSection struct {
	name string
	of   interface {
		sink(name string) Sink
		setDefaults()
	}
}

// AllSinks returns all sinks, configured or not, the consumers, and the notification sinks.
func (c *Config) AllSinks() (all []Sink) {
	for _, s := range c.Sinks.sections() {
		all = append(all, s.of.sink(s.name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Consumers)) {
		all = append(all, c.Consumers[name].sink(name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Notify.Sinks)) {
		all = append(all, c.Notify.Sinks[name].sink(name))
	}
	return all
}

// Unconfigured is a sink without an address for some modes. Its effects in these modes are skipped.
type Unconfigured struct {
	// Name is the sink's name. Key is its key in the file.
	Name, Key string
	Modes     []string
}

// UnconfiguredSinks returns the sinks without an address for a mode in which a source delivers billing events.
func (c *Config) UnconfiguredSinks() (all []Unconfigured) {
	delivers := map[string]bool{}
	for _, s := range c.Sources {
		if s.Provider == billing {
			for _, mode := range []webhook.Mode{webhook.Live, webhook.Test} {
				delivers[string(mode)] = delivers[string(mode)] || s.Mode == mode || s.Mode == ""
			}
		}
	}
	for _, section := range c.Sinks.sections() {
		sink := section.of.sink(section.name)
		missing := Unconfigured{Name: sink.Name, Key: sink.Key}
		for _, mode := range slices.Sorted(maps.Keys(delivers)) {
			if _, served := sink.Credentials[mode]; delivers[mode] && !served {
				missing.Modes = append(missing.Modes, mode)
			}
		}
		if missing.Modes != nil {
			all = append(all, missing)
		}
	}
	return all
}

func perMode[E any](both E, live, test *E, configured func(E) bool) map[string]E {
	modes := map[string]E{}
	for mode, own := range map[webhook.Mode]*E{webhook.Live: live, webhook.Test: test} {
		switch {
		case own != nil:
			modes[string(mode)] = *own
		case live == nil && test == nil && configured(both):
			modes[string(mode)] = both
		}
	}
	return modes
}

// bothServed reports whether the settings for both modes must be checked: not if the modes are separate, and not if
// the sink has no settings.
func (c *checker) bothServed(key string, apart bool, settings ...string) bool {
	if apart && slices.ContainsFunc(settings, func(name string) bool { return c.isSet(key + "." + name) }) {
		for _, part := range []string{key + ".live", key + ".test"} {
			if c.isSet(part) {
				c.bad(part, "cannot be combined with settings for both modes", "move "+strings.Join(settings, ", ")+
					" into live and test")
			}
		}
	}
	return !apart && c.isSet(key)
}

// Retries configures how long effects are retried before their run parks.
type Retries struct {
	// First is the delay after the first failure. It doubles up to Max; default 10m.
	First time.Duration `yaml:"first" default:"1s" min:"1ns"`
	Max   time.Duration `yaml:"max" min:"1ns"`
	// For is the retry time, counted from the first attempt; default 24h, or the sink's key lifetime if that is
	// shorter. Failures of pawl itself (database down, worker died) use up no attempts.
	For time.Duration `yaml:"for" min:"1ns"`
}

const (
	retryMax = 10 * time.Minute
	retryFor = 24 * time.Hour
)

// setDefaults sets times that depend on other settings. Retries end before the sink forgets the key.
func (r *Retries) setDefaults(keyLifetime time.Duration) {
	or(&r.Max, max(retryMax, r.First))
	or(&r.For, min(retryFor, cmp.Or(keyLifetime, retryFor)))
}

func (r Retries) check(c *checker, sink string, keyLifetime time.Duration) {
	key := sink + ".retries"
	if min(r.First, r.Max, r.For) < 0 {
		return
	}
	if r.Max < r.First {
		c.bad(key+".max", fmt.Sprintf("is %s, less than the first wait of %s", r.Max, r.First),
			"write a max that is not less than first")
	}
	if r.For < r.First {
		c.bad(key+".for", fmt.Sprintf("is %s, less than the first wait of %s", r.For, r.First),
			"write a for that is not less than first")
	}
	if keyLifetime > 0 && r.For > keyLifetime {
		c.bad(key+".for", fmt.Sprintf("is %s, but the sink forgets keys after %s", r.For, keyLifetime),
			"write a for that is not more than "+sink+".key_lifetime: a later attempt could be applied twice")
	}
}
