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

// Sinks are the outside systems that effects reach, by name. After Load it contains every known sink, whether or not
// the file configures it. No sink is required: effects of a sink without an address are skipped.
type Sinks map[string]*Sink

// emailSink is the sink that is reached by SMTP. The other sinks are HTTP APIs that remember idempotency keys.
const emailSink = "email"

// sinkNames lists the sinks of billing. Any other sink receives the requests of flows.
var sinkNames = []string{"workspaces", "finance", emailSink}

// reservedSinks lists names that pawl uses for itself.
var reservedSinks = []string{"database", "destinations", "flows", "notify", "stripe"}

// names returns the names of all sinks.
func (s Sinks) names() []string {
	all := slices.Clone(sinkNames)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(sinkNames, name) {
			all = append(all, name)
		}
	}
	return all
}

// Sink configures an outside system.
type Sink struct {
	// Server serves both modes, unless Live or Test is set: each of them then serves only its own mode.
	Server  `yaml:",inline"`
	Live    *Server `yaml:"live"`
	Test    *Server `yaml:"test"`
	Sending `yaml:",inline"`
	// KeyLifetime is how long the sink remembers a key. Automatic retries end after this time, because a later retry
	// could be applied twice. The default is the lifetime in Stripe's API, which many APIs have adopted; 12h for
	// e-mail.
	KeyLifetime time.Duration `yaml:"key_lifetime" default:"24h" min:"1m"`
	// Refusals lists responses that concern the customer. With an empty list, no response is a refusal.
	Refusals []Refusal `yaml:"refusals" default:"402 422 451"`
	// Guarantee is at_most_once or at_least_once, because SMTP cannot guarantee exactly once.
	Guarantee string `yaml:"guarantee" default:"at_most_once" oneof:"at_most_once at_least_once"`
	// KeyHeader is the header with which the mail relay deduplicates e-mails, or "" for a relay without such a header.
	KeyHeader string `yaml:"key_header"`
}

// Server is the address of an API or a mail server, and the credentials of pawl there.
type Server struct {
	Endpoint   `yaml:",inline"`
	MailServer `yaml:",inline"`
}

// The keys of a sink that depend on its protocol. The keys of a server can be separate per mode; the others cannot.
var (
	httpServer, httpOnly = []string{"url", "token"}, []string{"refusals"}
	mailServer           = []string{"address", "from", "tls", "username", "password"}
	mailOnly             = []string{"guarantee", "key_header"}
)

// Sending configures how effects are sent to a sink or a destination.
type Sending struct {
	// Timeout bounds one request. The default for e-mail is 30s.
	Timeout time.Duration `yaml:"timeout" default:"10s" min:"0s"`
	Retries Retries       `yaml:"retries"`
	// Bounds isolate the sink from other sinks.
	Bounds `yaml:",inline"`
	// Execution is "local" (try as a local activity first) or "activity".
	Execution string `yaml:"execution" default:"local" oneof:"local activity"`
	// Owner is the contact for problems of the sink.
	Owner string `yaml:"owner"`
}

// Bounds limit how much of a worker one sink or destination can use.
type Bounds struct {
	// MaxConcurrency is the maximum number of effects in flight per worker process (and per mode, if the sink is
	// separate per mode). The default is sufficient for a responsive sink: at 100 ms per request, 16 slots allow 160
	// effects per second in one process, and a worker on two cores runs about a hundred events per second. It is low
	// enough for a mail server, and for a small API that has to catch up after an outage.
	MaxConcurrency int `yaml:"max_concurrency" default:"16" min:"1" max:"1000"`
	// RateLimit is the maximum number of effects that start per second in each worker process; default unlimited.
	RateLimit int `yaml:"rate_limit" min:"1" fix:"write the number of effects per second, or leave it out for no limit"`
}

// emailTimeout is the default for e-mail. RFC 5321 §4.5.3.2 allows minutes, but a worker does not wait that long.
const emailTimeout = 30 * time.Second

// emailKeyLifetime is the default for mail relays. They remember keys for a day or less.
const emailKeyLifetime = 12 * time.Hour

// Target is a sink, a destination or a notification sink. pawl derives the limits, settings, reports and checks from
// the list of targets.
type Target struct {
	// Name is the name in the catalogue. The name of a destination begins with "destinations:", and of a notification
	// sink with "notify:".
	Name string
	// Key is the key of the target in the file.
	Key string
	Sending
	// KeyLifetime is how long the target remembers an idempotency key. Zero means that the target does not support
	// idempotency keys.
	KeyLifetime time.Duration
	// Credentials describes the credentials of pawl for each served mode. It is empty if the target is not configured.
	Credentials map[string]string
	// PerMode is set if live and test are served separately, each with a name, gate and breaker of its own.
	PerMode bool
	// Exactly one of HTTP and Email is set. Email is a sink that is reached by SMTP.
	HTTP, Email *Sink
	Destination *Destination
	Notify      *NotifySink
}

// Served is a target with the name of its gate, breaker, pause and reports: the name of the target, plus the mode if
// the target is separate per mode.
type Served struct {
	Name string
	// Mode is one of the modes served under the name.
	Mode string
	// Credentials describes the credentials of pawl.
	Credentials string
	Target      Target
}

// ForMode returns the name of the target for a mode.
func (s Target) ForMode(mode string) string {
	if s.PerMode {
		return s.Name + ":" + mode
	}
	return s.Name
}

// Served returns the configured targets by name.
func (c *Config) Served() (served []Served) {
	for _, s := range c.Targets() {
		for _, mode := range slices.Sorted(maps.Keys(s.Credentials)) {
			if s.PerMode || mode == string(webhook.Test) { // a sink for both modes is checked with test
				served = append(served, Served{s.ForMode(mode), mode, s.Credentials[mode], s})
			}
		}
	}
	return served
}

// complete adds the sinks that the file omits, and the defaults that differ between sinks.
func (s *Sinks) complete() {
	if *s == nil {
		*s = Sinks{}
	}
	maps.DeleteFunc(*s, func(_ string, sink *Sink) bool { return sink == nil }) // a key without a value is unset
	for _, name := range sinkNames {
		if (*s)[name] == nil {
			(*s)[name] = new(Sink)
		}
	}
	or(&(*s)[emailSink].Timeout, emailTimeout)
	or(&(*s)[emailSink].KeyLifetime, emailKeyLifetime)
}

// Targets returns all sinks, configured or not, the destinations, and the notification sinks.
func (c *Config) Targets() (all []Target) {
	for _, name := range c.Sinks.names() {
		all = append(all, c.Sinks[name].target(name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		all = append(all, c.Destinations[name].target(name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Notify.Sinks)) {
		all = append(all, c.Notify.Sinks[name].target(name))
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
	for _, name := range sinkNames {
		sink := c.Sinks[name].target(name)
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

// Modes returns the server for each configured mode.
func (s *Sink) Modes() map[string]Server {
	modes := map[string]Server{}
	for mode, own := range map[webhook.Mode]*Server{webhook.Live: s.Live, webhook.Test: s.Test} {
		switch {
		case own != nil:
			modes[string(mode)] = *own
		case !s.perMode() && (s.URL != "" || s.Address != ""):
			modes[string(mode)] = s.Server
		}
	}
	return modes
}

func (s *Sink) perMode() bool { return s.Live != nil || s.Test != nil }

// remembers returns how long a sink remembers keys. It returns 0 for a mail relay without KeyHeader.
func (s *Sink) remembers(name string) time.Duration {
	if name == emailSink && s.KeyHeader == "" {
		return 0
	}
	return s.KeyLifetime
}

// target makes the target of a sink. A nil sink has no address.
func (s *Sink) target(name string) Target {
	t := Target{Name: name, Key: "sinks." + name, Credentials: map[string]string{}}
	if s == nil {
		return t
	}
	t.Sending, t.PerMode, t.KeyLifetime = s.Sending, s.perMode(), s.remembers(name)
	for mode, server := range s.Modes() {
		t.Credentials[mode] = server.credentials()
	}
	if t.HTTP = s; name == emailSink {
		t.HTTP, t.Email = nil, s
	}
	return t
}

func (s Server) credentials() string {
	switch {
	case s.Username != "":
		return "its user and password are set"
	case s.Address != "":
		return "no user is set"
	case s.Token.Value() != "":
		return "its token is set"
	}
	return "no token is set"
}

func (s *Sink) setDefaults(name string) {
	for _, server := range []*Server{&s.Server, s.Live, s.Test} {
		if server != nil {
			server.URL = strings.TrimRight(server.URL, "/") // paths begin with a slash
		}
	}
	s.Retries.setDefaults(s.remembers(name))
}

func (s *Sink) check(c *checker, key string) {
	name, server, foreign := strings.TrimPrefix(key, "sinks."), httpServer, slices.Concat(mailServer, mailOnly)
	switch {
	case name == emailSink:
		server, foreign = mailServer, slices.Concat(httpServer, httpOnly)
		s.checkKeyHeader(c, key)
	case !slices.Contains(sinkNames, name):
		if problem, fix, found := retired(key); found {
			c.bad(key, problem, fix)
			return
		}
		if !c.cfg.usedByFlows(name) {
			c.bad(key, "is not a known sink", "write "+strings.Join(sinkNames, ", ")+
				", or move an endpoint for events to destinations; or use the sink in a flow")
			return
		}
		if !sourceName.MatchString(name) || slices.Contains(reservedSinks, name) {
			c.bad(key, "is not a valid sink name", "use lower-case letters, digits, - and _, and none of "+
				strings.Join(reservedSinks, ", "))
		}
	}
	for _, setting := range foreign {
		for _, at := range []string{key, key + ".live", key + ".test"} {
			if c.isSet(at + "." + setting) {
				c.bad(at+"."+setting, "is not a setting of this sink", "remove it; the server is described by "+
					strings.Join(server, ", "))
			}
		}
	}
	s.Retries.check(c, key, s.remembers(name))
	if c.bothServed(key, s.perMode(), server...) {
		s.Server.check(c, key)
	}
}

func (s *Server) check(c *checker, key string) {
	if key == "sinks."+emailSink || strings.HasPrefix(key, "sinks."+emailSink+".") {
		s.MailServer.check(c, key)
	} else {
		s.Endpoint.check(c, key)
	}
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

// Retries configures how long effects are retried before their run parks. The names are Temporal's.
type Retries struct {
	// InitialInterval is the delay after the first failure. It doubles up to MaxInterval; default 10m.
	InitialInterval time.Duration `yaml:"initial_interval" default:"1s" min:"1ns"`
	MaxInterval     time.Duration `yaml:"max_interval" min:"1ns"`
	// MaxElapsed is the retry time, counted from the first attempt; default 24h, or the sink's key lifetime if that
	// is shorter. Failures of pawl itself (database down, worker died) use up no attempts.
	MaxElapsed time.Duration `yaml:"max_elapsed" min:"1ns"`
}

const (
	maxInterval = 10 * time.Minute
	maxElapsed  = 24 * time.Hour
)

// setDefaults sets times that depend on other settings. Retries end before the sink forgets the key.
func (r *Retries) setDefaults(keyLifetime time.Duration) {
	or(&r.MaxInterval, max(maxInterval, r.InitialInterval))
	or(&r.MaxElapsed, min(maxElapsed, cmp.Or(keyLifetime, maxElapsed)))
}

func (r Retries) check(c *checker, sink string, keyLifetime time.Duration) {
	key := sink + ".retries"
	if min(r.InitialInterval, r.MaxInterval, r.MaxElapsed) < 0 {
		return
	}
	if r.MaxInterval < r.InitialInterval {
		c.bad(key+".max_interval", fmt.Sprintf("is %s, less than initial_interval (%s)", r.MaxInterval,
			r.InitialInterval), "write a max_interval that is not less than initial_interval")
	}
	if r.MaxElapsed < r.InitialInterval {
		c.bad(key+".max_elapsed", fmt.Sprintf("is %s, less than initial_interval (%s)", r.MaxElapsed,
			r.InitialInterval), "write a max_elapsed that is not less than initial_interval")
	}
	if keyLifetime > 0 && r.MaxElapsed > keyLifetime {
		c.bad(key+".max_elapsed", fmt.Sprintf("is %s, but the sink forgets keys after %s", r.MaxElapsed, keyLifetime),
			"write a max_elapsed that is not more than "+sink+
				".key_lifetime: a later attempt could be applied twice")
	}
}
