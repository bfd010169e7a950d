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

// Sinks are the outside systems that effects reach. None is required: the effects of one that is not configured are
// left out.
type Sinks struct {
	Workspaces  HTTPSink     `yaml:"workspaces"`
	Finance     HTTPSink     `yaml:"finance"`
	Email       EmailSink    `yaml:"email"`
	Subscribers []Subscriber `yaml:"subscribers"`
}

// Sending says how effects are sent to a sink or a consumer, and how often.
type Sending struct {
	// Timeout bounds one request. Mail has another default.
	Timeout time.Duration `yaml:"timeout" default:"10s" min:"0s"`
	Retries Retries       `yaml:"retries"`
	// Bounds keep what the sink does from other sinks.
	Bounds `yaml:",inline"`
	// Effects is "local" (try as a local activity first) or "activity".
	Effects string `yaml:"effects" default:"local" oneof:"local activity"`
	// Owner is whom to turn to about the sink.
	Owner string `yaml:"owner"`
}

// Bounds say how much of a worker's work one sink, or one consumer, can hold.
type Bounds struct {
	// Places is how many effects are in flight at once from each worker process. For each mode, where the sink is per
	// mode. The default is more than a sink needs that answers: at 100 ms each, 16 are 160 effects a second from one
	// process, and an engine on two cores runs about a hundred events. It is few enough for a mail server, and for a
	// small API that is met by all that had waited.
	Places int `yaml:"places" default:"16" min:"1" max:"1000"`
	// Rate is how many may begin each second in each worker process; default any number.
	Rate int `yaml:"rate" min:"1" fix:"write how many may begin each second, or leave it out for any number"`
}

// emailTimeout is the default of mail. RFC 5321 §4.5.3.2 grants minutes; a worker does not wait that long.
const emailTimeout = 30 * time.Second

// Sink is a sink or a consumer of any protocol. Gates, settings, reports and checks are built from it.
type Sink struct {
	// Name is the catalogue's; that of a consumer begins with "consumers:", that of a sink for people with "notify:".
	Name string
	// Key is where it stands in the file.
	Key string
	Sending
	// KeyLifetime is how long it remembers a key, zero for one to which that means nothing.
	KeyLifetime time.Duration
	// Credentials say with what pawl is let in, in words, for each mode that it serves. It is empty where the sink is
	// not configured.
	Credentials map[string]string
	// PerMode is set where live and test are served apart, each under a name, a gate and a breaker of its own.
	PerMode bool
	// One of these is set: what the sink speaks.
	HTTP     *HTTPSink
	Email    *EmailSink
	Consumer *Consumer
	Notify   *NotifySink
}

// Served is a sink under the name of its gate, breaker, pause and reports: the sink's, with the mode where it is per
// mode.
type Served struct {
	Name string
	// Mode is one that is served under the name.
	Mode string
	// Credentials say with what pawl is let in, in words.
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

// Served are the configured sinks and consumers by name.
func (c *Config) Served() (served []Served) {
	for _, s := range c.AllSinks() {
		for _, mode := range slices.Sorted(maps.Keys(s.Credentials)) {
			if s.PerMode || mode == string(webhook.Test) { // where one serves both, it is asked about test
				served = append(served, Served{s.ForMode(mode), mode, s.Credentials[mode], s})
			}
		}
	}
	return served
}

// sections are the sinks by name. A sink that does not stand here has no effects.
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

// AllSinks are the sinks, configured or not, the consumers, and those that tell people.
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

// bothServed reports whether what serves both modes is to be checked: not if they are served apart, nor if the sink
// has no setting, and so is not configured.
func (c *checker) bothServed(key string, apart bool, settings ...string) bool {
	if apart && slices.ContainsFunc(settings, func(name string) bool { return c.stands(key + "." + name) }) {
		for _, part := range []string{key + ".live", key + ".test"} {
			if c.stands(part) {
				c.bad(part, "stands beside settings for both modes", "move "+strings.Join(settings, ", ")+
					" into live and test")
			}
		}
	}
	return !apart && c.stands(key)
}

// Retries say how long the effects of a sink, or of a consumer, are tried before their run parks and a person decides.
type Retries struct {
	// First is the wait after the first failure on the other side, doubled up to Max; default 10m.
	First time.Duration `yaml:"first" default:"1s" min:"1ns"`
	Max   time.Duration `yaml:"max" min:"1ns"`
	// For is how long an effect is tried, counted from its first try; default 24h, or the sink's key lifetime where
	// that is less. Trouble of our own (the database is down, a worker died) uses up no tries.
	For time.Duration `yaml:"for" min:"1ns"`
}

const (
	retryMax = 10 * time.Minute
	retryFor = 24 * time.Hour
)

// setDefaults fills in the times that depend on others. A sink that forgets keys is tried no longer than it remembers
// them.
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
		c.bad(key+".for", fmt.Sprintf("is %s, and the sink forgets keys after %s", r.For, keyLifetime),
			"write a for that is not more than "+sink+".key_lifetime: a later try could be applied twice")
	}
}
