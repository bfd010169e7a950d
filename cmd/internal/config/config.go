// Package config turns one YAML file and the environment into a typed configuration, and reports
// every fault at once with the key, the line and the fix. Secrets stand in the file only by
// reference (env:NAME, file:PATH); Temporal's connection is the SDK's own (TEMPORAL_* variables, or
// the TOML file that temporal.config_file names).
package config

import (
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Config is the whole configuration, checked and with every reference resolved.
type Config struct {
	// Dev relaxes the checks for a developer's machine, such as those of secrets: short ones and placeholders pass.
	// Only `pawl dev` writes it.
	Dev bool `yaml:"dev"`
	// Day is the length of a day for the billing clock; default 24h. Only dev may have a shorter one.
	Day time.Duration `yaml:"day" default:"24h"`
	// Database is the Postgres DSN, by reference because it holds a password; default env:DATABASE_URL.
	Database Ref      `yaml:"database" default:"env:DATABASE_URL"`
	Temporal Temporal `yaml:"temporal"`
	Ingress  Ingress  `yaml:"ingress"`
	// Ops is where /livez, /readyz and /metrics are; Console is for the operator's pages and the API. Neither is the
	// public listener.
	Ops     Ops               `yaml:"ops"`
	Console Console           `yaml:"console"`
	API     API               `yaml:"api"`
	Tracing Tracing           `yaml:"tracing"`
	Sources map[string]Source `yaml:"sources"`
	Sinks   Sinks             `yaml:"sinks"`
	Mail    Mail              `yaml:"mail"`
	// Consumers take relayed events; a source names those that get its own.
	Consumers map[string]Consumer `yaml:"consumers"`
	Notify    Notify              `yaml:"notify"`
	Plans     Plans               `yaml:"plans"`
	Policy    Policy              `yaml:"policy"`

	// Warnings lists settings that are usable but doubtful: a secret file that others may read, say, or two senders
	// with one secret.
	Warnings Faults `yaml:"-"`
}

// API is what programs ask.
type API struct {
	// StaleIfError is for how long the last known answer about what an account may use is given, and a known token is
	// accepted, while the database is away.
	StaleIfError time.Duration `yaml:"stale_if_error" default:"15m" min:"0s"`
}

// Ops are the listeners for health and metrics, host:port: each kind of process has one of its own, so that both run on
// one host with one file.
type Ops struct {
	// Ingress is that of `pawl ingress`, with or without --worker.
	Ingress string `yaml:"ingress" default:"127.0.0.1:8082" form:"address"`
	// Worker is that of `pawl worker`.
	Worker string `yaml:"worker" default:"127.0.0.1:8084" form:"address"`
	// Console is that of `pawl console`.
	Console string `yaml:"console" default:"127.0.0.1:8085" form:"address"`
}

// Tracing sends traces to a collector. It is off without an endpoint.
type Tracing struct {
	// Endpoint is where the collector takes OTLP over HTTP: http://host:4318.
	Endpoint string `yaml:"endpoint" form:"url"`
	// OneIn is how many deliveries have one trace between them.
	OneIn int `yaml:"one_in" default:"100" min:"1"`
}

// Ingress is the public listener and its limits.
type Ingress struct {
	Listen string `yaml:"listen" default:"127.0.0.1:8080" form:"address"`
	// PublicURL is how providers reach the listener, for schemes that sign the URL.
	PublicURL string `yaml:"public_url" form:"url"`
	// BodyLimit is counted on the bytes read; a source may set its own.
	BodyLimit Bytes `yaml:"body_limit" default:"1MiB"`
	// ShutdownDelay is how long deliveries are still taken after a stop was asked for, while readiness says
	// no: the time that a load balancer needs to send them elsewhere. None takes longer than five minutes to notice.
	ShutdownDelay time.Duration `yaml:"shutdown_delay" min:"0s" max:"5m"`
	Limits        Limits        `yaml:"limits"`
}

// Limits bounds the work of the public listener; requests above a limit are answered 503 with Retry-After.
type Limits struct {
	// PerSource and PerAddress bound the requests of one source and of one remote address. Unset
	// means unbounded.
	PerSource  Rate `yaml:"per_source"`
	PerAddress Rate `yaml:"per_address"`
	// TrustedProxies are the networks whose X-Forwarded-For is believed; empty means none, and the
	// connection's own address counts.
	TrustedProxies []Network `yaml:"trusted_proxies"`
	// MaxConcurrent bounds the deliveries that are verified and committed at once.
	MaxConcurrent int `yaml:"max_concurrent" default:"1024" min:"0"`
	// MaxConnections bounds the open connections. No new connection is turned away: the sender with the most unproven
	// ones loses one.
	MaxConnections int `yaml:"max_connections" default:"2048" min:"0"`
}

// Rate is a token bucket: PerSecond refills it, Burst is its size (default: one second's worth).
type Rate struct {
	PerSecond int `yaml:"per_second" min:"0"`
	Burst     int `yaml:"burst" min:"0"`
}

// Source is one configured endpoint, /hooks/{name}.
type Source struct {
	Provider string `yaml:"provider"`
	// Mode is "live" or "test": events of the other one are recorded as ignored. Empty is for providers whose events
	// say which they are, if no billing follows from them: both are then accepted, and the event's own word holds.
	Mode    webhook.Mode `yaml:"mode" oneof:"live test" fix:"write live or test, or leave it out"`
	Secrets []Secret     `yaml:"secrets"`
	// Events is the allow-list of types; empty means every type that has a flow, and with relay every
	// type.
	Events []string `yaml:"events"`
	// Accounts says which provider-side accounts are run, or which of ours they are.
	Accounts Accounts `yaml:"accounts"`
	// Relay names the consumers that get the source's events, beside the flow that a type has.
	Relay []string `yaml:"relay"`
	// AllowFrom, when set, lists the networks that may deliver. It stands beside the signature, never
	// instead of it.
	AllowFrom []Network `yaml:"allow_from"`
	// Correlation is where a delivery names what it belongs to: a header, or "/" and a JSON pointer into the event.
	Correlation string `yaml:"correlation"`
	// URL is the endpoint as registered with the provider; default {ingress.public_url}/hooks/{name}.
	URL       string `yaml:"url" form:"url"`
	BodyLimit Bytes  `yaml:"body_limit"`
	// Tolerance bounds the clock difference in both directions; zero means the provider's default.
	Tolerance time.Duration     `yaml:"tolerance" min:"0s"`
	Options   map[string]string `yaml:"options"`
	// APIKey may read the provider's objects. pawl asks the API if events leave something uncertain, and never
	// without a key.
	APIKey Ref `yaml:"api_key"`
	// APIURL is where the API is, "" for the provider's own.
	APIURL string `yaml:"api_url" form:"url"`
	// APIRate bounds the requests of all processes together, by the second. Its default is a fifth of Stripe's limit:
	// the rest is for the company's own programs.
	APIRate int `yaml:"api_rate" default:"20" min:"1" max:"100"`
	// Contract is the provider's.
	Contract webhook.Contract `yaml:"-"`
}

// Secret is one key of a source.
type Secret struct {
	// Label names the key in receipts and reports; default "secret-1", "secret-2", … by place.
	Label     string    `yaml:"label"`
	Value     Ref       `yaml:"value"`
	NotBefore time.Time `yaml:"not_before"`
	NotAfter  time.Time `yaml:"not_after"`
	// ByPlace: the label is the default one. The counts under it may come from another secret that had this place
	// before.
	ByPlace bool `yaml:"-"`
}

// Active reports whether the secret may admit a request that is received at t.
func (s Secret) Active(t time.Time) bool {
	return webhook.Secret{NotBefore: s.NotBefore, NotAfter: s.NotAfter}.Active(t)
}
