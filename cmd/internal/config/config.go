// Package config parses one YAML file and the environment into a typed configuration, and reports every error at once
// with its key, line and fix. The file contains secrets only by reference (env:NAME, file:PATH). Temporal's
// connection uses the SDK's own configuration (TEMPORAL_* variables, or the TOML file in temporal.config_file).
package config

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config/stamp"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Config is the complete configuration, checked and with resolved references.
type Config struct {
	Dev Development `yaml:"dev"`
	// Database is the Postgres DSN. It is a reference because it contains a password; default env:DATABASE_URL.
	Database Ref      `yaml:"database" default:"env:DATABASE_URL"`
	Temporal Temporal `yaml:"temporal"`
	Ingress  Ingress  `yaml:"ingress"`
	// Ops serves /livez, /readyz and /metrics. Console serves the operator's pages and the API. Both use other
	// listeners than the public one.
	Ops     Ops               `yaml:"ops"`
	Console Console           `yaml:"console"`
	API     API               `yaml:"api"`
	Tracing Tracing           `yaml:"tracing"`
	Sources map[string]Source `yaml:"sources"`
	Sinks   Sinks             `yaml:"sinks"`
	Email   Email             `yaml:"email"`
	// Destinations receive the events of sources, as the provider sent them, and the events of pawl.
	Destinations map[string]Destination `yaml:"destinations"`
	// Flows turn events into effects on your own systems.
	Flows     map[string]Flow `yaml:"flows"`
	Notify    Notify          `yaml:"notify"`
	Plans     Plans           `yaml:"plans"`
	Policy    Policy          `yaml:"policy"`
	Effects   Effects         `yaml:"effects"`
	Retention Retention       `yaml:"retention"`

	// Warnings lists usable but doubtful settings, e.g. a secret file that others can read, or two senders with the
	// same secret.
	Warnings Faults `yaml:"-"`
	// SecretFiles lists the files that references name, as they were when they were read.
	SecretFiles []stamp.File `yaml:"-"`
}

// Development configures pawl on a developer's machine. Only `pawl dev` writes this section.
type Development struct {
	// Enabled relaxes checks: short secrets and placeholders are accepted.
	Enabled bool `yaml:"enabled"`
	// Day is the real time that one day of the policy takes. It may be shorter than 24 hours if Enabled is set.
	Day time.Duration `yaml:"day" default:"24h"`
}

// API configures the API for programs.
type API struct {
	// StaleIfError is how long the API serves the last known access of an account, and accepts a known token, while
	// the database is down.
	StaleIfError time.Duration `yaml:"stale_if_error" default:"15m" min:"0s"`
}

// Ops are the listeners for health and metrics, as host:port. Each kind of process has its own address, so that all of
// them can run on one host with one file.
type Ops struct {
	// Ingress is the listener of `pawl ingress`, with or without --worker.
	Ingress string `yaml:"ingress" default:"127.0.0.1:8082" form:"address"`
	// Worker is the listener of `pawl worker`.
	Worker string `yaml:"worker" default:"127.0.0.1:8084" form:"address"`
	// Console is the listener of `pawl console`.
	Console string `yaml:"console" default:"127.0.0.1:8085" form:"address"`
}

// Tracing sends traces to a collector. It is disabled without an endpoint.
type Tracing struct {
	// Endpoint is the OTLP/HTTP endpoint of the collector: http://host:4318.
	Endpoint string `yaml:"endpoint" form:"url"`
	// SampleRatio is the share of deliveries that are traced, from 0 to 1.
	SampleRatio float64 `yaml:"sample_ratio" default:"0.01" zero:"counts"`
}

func (t *Tracing) check(c *checker, _ string) {
	if !(t.SampleRatio >= 0 && t.SampleRatio <= 1) {
		c.bad("tracing.sample_ratio", fmt.Sprintf("is %v, not between 0 and 1", t.SampleRatio),
			"write the share of traced deliveries, such as 0.01")
	}
}

// Ingress is the public listener and its limits.
type Ingress struct {
	Listen string `yaml:"listen" default:"127.0.0.1:8080" form:"address"`
	// PublicURL is the URL of the listener for providers, needed by schemes that sign the URL.
	PublicURL string `yaml:"public_url" form:"url"`
	// BodyLimit limits the bytes read of a body. A source may set its own limit.
	BodyLimit Bytes `yaml:"body_limit" default:"1MiB"`
	// ShutdownDelay is how long the ingress still accepts deliveries after the stop signal, while /readyz fails, so
	// that the load balancer can move the traffic. No load balancer needs more than five minutes.
	ShutdownDelay time.Duration `yaml:"shutdown_delay" min:"0s" max:"5m"`
	Limits        Limits        `yaml:"limits"`
}

// Limits limits the work of the public listener. Requests above a limit get 503 with Retry-After.
type Limits struct {
	// PerSource and PerAddress limit the rate per source and per remote address. Unset means unlimited.
	PerSource  Rate `yaml:"per_source"`
	PerAddress Rate `yaml:"per_address"`
	// TrustedProxies are the networks of proxies with a trusted X-Forwarded-For. If it is empty, the address of the
	// connection is used.
	TrustedProxies []Network `yaml:"trusted_proxies"`
	// MaxConcurrent limits the deliveries that are verified and committed concurrently.
	MaxConcurrent int `yaml:"max_concurrent" default:"1024" min:"0"`
	// MaxConnections limits the open connections. pawl always accepts a new connection, and closes a connection of
	// the sender with the most connections without a verified delivery.
	MaxConnections int `yaml:"max_connections" default:"2048" min:"0"`
}

// Rate is a token bucket: PerSecond refills it, and Burst is its size (default: one second's worth).
type Rate struct {
	PerSecond int `yaml:"per_second" min:"0"`
	Burst     int `yaml:"burst" min:"0"`
}

// Source is an endpoint, /hooks/{name}.
type Source struct {
	Provider string `yaml:"provider"`
	// Mode is "live" or "test". Events of the other mode are recorded as ignored. Mode may be empty if the events of
	// the provider contain their mode and the provider has no billing flows. Events of both modes are then accepted.
	Mode    webhook.Mode `yaml:"mode" oneof:"live test" fix:"write live or test, or leave it out"`
	Secrets []Secret     `yaml:"secrets"`
	// Events lists the accepted event types. If it is empty, every type with a flow is accepted, and every type if
	// a destination lists the source.
	Events []string `yaml:"events"`
	// Accounts selects the provider's accounts, or maps them to your accounts.
	Accounts Accounts `yaml:"accounts"`
	// AllowFrom, if set, lists the networks that may deliver. It does not replace the signature.
	AllowFrom []Network `yaml:"allow_from"`
	// Correlation is the location of the correlation ID in a delivery: a header, or a JSON pointer that begins with
	// "/".
	Correlation string `yaml:"correlation"`
	// URL is the URL of the endpoint as registered with the provider; default {ingress.public_url}/hooks/{name}.
	URL       string `yaml:"url" form:"url"`
	BodyLimit Bytes  `yaml:"body_limit"`
	// Tolerance limits the clock difference in both directions. Zero means the provider's default.
	Tolerance time.Duration     `yaml:"tolerance" min:"0s"`
	Options   map[string]string `yaml:"options"`
	// APIKey may read the provider's objects. Without a key, pawl does not use the API. With a key, pawl fetches
	// objects if events do not contain all required data.
	APIKey Ref `yaml:"api_key"`
	// APIURL is the base URL of the API, or "" for the provider's own.
	APIURL string `yaml:"api_url" form:"url"`
	// APIRateLimit limits the requests per second of all processes together. The default is a fifth of Stripe's limit,
	// which leaves the rest to your own programs.
	APIRateLimit int `yaml:"api_rate_limit" default:"20" min:"1" max:"100"`
	// Contract is the contract of the provider.
	Contract webhook.Contract `yaml:"-"`
}

// Secret is one key of a source.
type Secret struct {
	// Label identifies the key in receipts and reports; default "secret-1", "secret-2", … by position.
	Label     string    `yaml:"label"`
	Value     Ref       `yaml:"value"`
	NotBefore time.Time `yaml:"not_before"`
	NotAfter  time.Time `yaml:"not_after"`
	// ByPlace is set if the label is the default label. Counts with this label may belong to an earlier secret at the
	// same position.
	ByPlace bool `yaml:"-"`
}

// Active reports whether the secret is valid for a request received at t.
func (s Secret) Active(t time.Time) bool {
	return webhook.Secret{NotBefore: s.NotBefore, NotAfter: s.NotAfter}.Active(t)
}
