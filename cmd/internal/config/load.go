package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Load reads the file at path, applies defaults, resolves every reference through env and the files next to it, and
// checks the result. providers contains the known providers by name; if it is empty, the provider settings of sources
// are not checked. If the file could be read, the error is a [Faults].
func Load(path string, env func(string) (string, bool), providers map[string]webhook.Provider) (*Config, error) {
	return load(path, checker{env: env, providers: providers})
}

// LoadToAsk is [Load] for a command that only reads the database: any other unreadable secret is a warning.
func LoadToAsk(path string, env func(string) (string, bool), providers map[string]webhook.Provider) (*Config, error) {
	return load(path, checker{env: env, providers: providers, asks: true})
}

// LoadSecretless is [Load] for a command that uses no secret of the file. It ignores unreadable secrets.
func LoadSecretless(path string, env func(string) (string, bool), providers map[string]webhook.Provider) (*Config,
	error) {
	return load(path, checker{env: env, providers: providers, secretless: true})
}

// Check is [Load] that also queries the provider of each source, so that faults which only the provider can detect
// are reported with the others.
func Check(path string, env func(string) (string, bool), providers map[string]webhook.Provider) (*Config, error) {
	return load(path, checker{env: env, providers: providers, ask: true})
}

func load(path string, c checker) (*Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration (--config): %w", err)
	}
	c.dir, c.now = filepath.Dir(path), time.Now()
	return c.parse(bytes.TrimPrefix(content, []byte(byteOrderMark)))
}

// parse reads and checks content, the text of a file.
func (c checker) parse(content []byte) (*Config, error) {
	file, err := parser.ParseBytes(content, 0, parser.AllowDuplicateMapKey()) // the decoder reports duplicates
	if err != nil {
		return nil, Faults{syntaxFault(err)}
	}
	if len(file.Docs) > 1 {
		return nil, Faults{{Problem: "the file contains several YAML documents", Fix: "keep one"}}
	}
	c.cfg, c.decoder = new(Config), &decoder{lines: map[string]int{}, written: map[string]bool{},
		places: map[string]place{}}
	if len(file.Docs) == 1 && len(bytes.TrimSpace(content)) > 0 {
		c.decode(file.Docs[0].Body, reflect.ValueOf(c.cfg).Elem(), "")
	}
	c.cfg.Sinks.complete()
	walk(reflect.ValueOf(c.cfg).Elem(), "", c.setting)
	c.cfg.setDefaults()
	c.check()
	c.cfg.Warnings.sort()
	if len(c.faults) > 0 {
		c.faults.sort()
		return nil, c.faults
	}
	return c.cfg, nil
}

// syntaxFault converts the parser's error to one line. The original error quotes the source, which may contain a
// secret that was written there by mistake.
func syntaxFault(err error) Fault {
	f := Fault{Problem: "the file is not YAML", Fix: "check the indentation and the colons"}
	var se yaml.Error
	if errors.As(err, &se) {
		f.Problem += ": " + se.GetMessage()
		if t := se.GetToken(); t != nil {
			f.Line = t.Position.Line
		}
	}
	return f
}

// setDefaults sets defaults that depend on other settings.
func (c *Config) setDefaults() {
	c.Temporal.fileOnly = c.Dev.Enabled && c.Temporal.ConfigFile != ""
	or(&c.Ingress.Limits.PerSource.Burst, c.Ingress.Limits.PerSource.PerSecond)
	or(&c.Ingress.Limits.PerAddress.Burst, c.Ingress.Limits.PerAddress.PerSecond)
	for name, s := range c.Sources {
		if s.URL == "" && c.Ingress.PublicURL != "" {
			s.URL = strings.TrimRight(c.Ingress.PublicURL, "/") + "/hooks/" + name
		}
		for i := range s.Secrets {
			s.Secrets[i].ByPlace = s.Secrets[i].Label == ""
			or(&s.Secrets[i].Label, fmt.Sprintf("secret-%d", i+1))
		}
		c.Sources[name] = s
	}
	for name, s := range c.Sinks {
		s.setDefaults(name)
	}
	for name, d := range c.Destinations {
		d.Retries.setDefaults(0)
		c.Destinations[name] = d
	}
	for name, s := range c.Notify.Sinks {
		s.Retries.setDefaults(0)
		c.Notify.Sinks[name] = s
	}
	c.Plans.setDefaults()
}

func or[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
