package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/workflows"
)

// File is the configuration file of the stack, for all other commands.
func (s *Stack) File() string { return filepath.Join(s.Dir, "pawl.yaml") }

// Configure writes the configuration of the stack: the dev configuration with parts of the user's file. In the
// sandbox, the user's other sources, sinks of flows and recipients of notifications exist under their names, and the
// sandbox replaces the systems behind them. check loads the new file before it replaces [Stack.File]. If check returns
// an error, the previous file stays.
func (s *Stack) Configure(check func(file string) error) error {
	own, err := s.readOwn()
	s.own = own
	if err != nil {
		return err
	}
	p, err := s.params(own)
	if err != nil {
		return err
	}
	content := template.Dev(p)
	if s.Own != "" {
		if content, err = config.MergeDev(content, s.Own, own.text, s.Real); err != nil {
			return fmt.Errorf("%s: %w", s.Own, err)
		}
	}
	if err := s.makeAllKeys(); err != nil {
		return err
	}
	files := map[string]string{
		"database.url": s.dsn + "\n",
		// The key has no mode, so the simulated Stripe returns objects of both modes, and the source accepts both.
		"secrets/stripe-api":    "rk_dev\n",
		"secrets/notifications": s.Sandbox.URL() + "/notifications\n",
		"temporal.toml":         fmt.Sprintf("# Written by `pawl dev`: how the Temporal SDK reaches the dev server.\n[profile.default]\naddress = %q\nnamespace = \"default\"\n", s.Temporal.Addr()),
		newFile:                 string(content),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	checked := filepath.Join(s.Dir, newFile)
	if err := check(checked); err != nil {
		return err
	}
	if err := os.Rename(checked, s.File()); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if s.Own != "" {
		fmt.Fprintf(s.Progress, "config    %s: %s\n", s.Own, config.DescribeUse(own.text, s.Real))
		if unused := own.SignIn(); len(unused) > 0 {
			fmt.Fprintf(s.Progress, "console   not used: %s. The console of pawl dev has no sign-in: everyone is dev, with the role admin. To test the sign-in, run pawl console --config %s\n", strings.Join(unused, ", "), s.Own)
		}
	}
	return nil
}

// newFile is the name of a configuration that is not checked yet.
const newFile = "pawl.new.yaml"

// Changed waits until the user's file differs from the content that [Stack.Configure] read last. It returns false if
// ctx ends. Without a file of the user, nothing changes.
func (s *Stack) Changed(ctx context.Context) bool {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	var last []byte
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		if s.Own == "" {
			continue
		}
		// An editor can remove or empty the file for a moment, and write it in parts.
		text, err := os.ReadFile(s.Own)
		if err == nil && len(text) > 0 && bytes.Equal(text, last) && !bytes.Equal(text, s.own.text) {
			return true
		}
		last = text
	}
}

// ownFile is the configuration file of the user.
type ownFile struct {
	text []byte
	config.Outline
}

// readOwn reads the user's file. Without a file, the result is empty.
func (s *Stack) readOwn() (own ownFile, err error) {
	if s.Own == "" {
		return own, nil
	}
	if own.text, err = os.ReadFile(s.Own); err != nil {
		return own, fmt.Errorf("read --config: %w", err)
	}
	if own.Outline, err = config.ReadOutline(own.text); err != nil {
		return own, fmt.Errorf("%s: %w", s.Own, err)
	}
	return own, nil
}

// params returns the parameters of the dev configuration.
func (s *Stack) params(own ownFile) (template.DevParams, error) {
	sandbox := s.Sandbox.URL()
	p := template.DevParams{
		Ingress: s.Ingress, Console: s.Console, Ops: s.Ops, WorkerOps: "127.0.0.1:0",
		WorkspacesURL: sandbox, FinanceURL: sandbox, SMTP: s.Sandbox.SMTPAddr(),
		TemporalUI: s.Temporal.UIURL(), EventsURL: sandbox + "/events", RelayedURL: sandbox + "/relayed",
		StripeAPI: sandbox + "/stripe",
	}
	var err error
	if p.Sources, err = s.sources(own); err != nil {
		return p, err
	}
	if s.Day != 24*time.Hour { // "" means 24 hours
		p.Day = output.ShortDuration(s.Day)
	}
	var relayed []string
	for _, source := range p.Sources {
		relayed = append(relayed, strconv.Quote(source.Name))
	}
	p.Relayed = strings.Join(relayed, ", ")
	for _, name := range slices.Sorted(maps.Keys(own.Sinks)) {
		of := own.Sinks[name]
		sink := template.DevSink{Name: name, URL: sandbox + "/sinks/" + name}
		if of.Live != nil {
			sink.Modes = append(sink.Modes, string(webhook.Live))
		}
		if of.Test != nil {
			sink.Modes = append(sink.Modes, string(webhook.Test))
		}
		if sink.Refusals, err = inline(of.Refusals); err != nil {
			return p, err
		}
		p.Sinks = append(p.Sinks, sink)
	}
	if p.Notify, err = notify(own); err != nil {
		return p, err
	}
	return p, nil
}

// keyOptions are options about the secret of a source. The secret in the sandbox has the default form.
var keyOptions = []string{webhook.KeyEncoding, "certificates"}

// sources returns a source for each provider except Stripe. The user's sources of a provider replace it, so that flows
// can name them. The source of Stripe is always named stripe and is a separate part of the configuration.
func (s *Stack) sources(own ownFile) (all []template.DevSource, err error) {
	if of, taken := own.Sources["stripe"]; taken && of.Provider != "stripe" {
		return nil, fmt.Errorf("%s: sources.stripe has the provider %s: rename the source, because pawl dev has a source of this name for Stripe", s.Own, of.Provider)
	}
	for _, provider := range slices.Sorted(maps.Keys(s.Providers)) {
		if provider == "stripe" {
			continue
		}
		p := s.Providers[provider]
		standard := template.DevSource{Name: provider, Provider: provider, Options: p.Sample.Options}
		if p.Contract.Mode == "" {
			standard.Mode = webhook.Test
		}
		_, taken := own.Sources[provider]
		replaced := false
		for _, name := range slices.Sorted(maps.Keys(own.Sources)) {
			of := own.Sources[name]
			if of.Provider != provider {
				continue
			}
			replaced = true
			source := standard
			source.Name = name
			if len(of.Options) > 0 {
				source.Options = of.Options
				maps.DeleteFunc(source.Options, func(o, _ string) bool { return slices.Contains(keyOptions, o) })
			}
			if source.Mode != "" && of.Mode != "" {
				source.Mode = webhook.Mode(of.Mode)
			}
			if source.Events, err = inline(of.Events); err != nil {
				return nil, err
			}
			all = append(all, source)
		}
		if !replaced && !taken {
			all = append(all, standard)
		}
	}
	return all, nil
}

// notify returns the recipients of the user's file, or one recipient. The sandbox receives the messages to all of them.
func notify(own ownFile) (n template.DevNotify, err error) {
	for _, name := range slices.Sorted(maps.Keys(own.Notify.Sinks)) {
		n.Sinks = append(n.Sinks, template.DevNotifySink{Name: name, Only: own.Notify.Sinks[name].Only})
	}
	if len(n.Sinks) == 0 {
		n.Sinks = []template.DevNotifySink{{Name: "sandbox"}}
	}
	if n.Quiet, err = inline(own.Notify.Quiet); err != nil {
		return n, err
	}
	n.Financial, err = inline(own.Notify.Financial)
	return n, err
}

// inline returns a list or map as JSON, which is also YAML, or "" if it is nil.
func inline(v any) (string, error) {
	text, err := json.Marshal(v)
	if string(text) == "null" {
		return "", err
	}
	return string(text), err
}

// endpoint returns the ingress as a webhook endpoint of the simulated Stripe.
func (s *Stack) endpoint() []json.RawMessage {
	object, err := json.Marshal(map[string]any{
		"id": "we_dev", "object": "webhook_endpoint", "url": "http://" + s.Ingress + "/hooks/stripe",
		"status": "enabled", "api_version": stripe.Version, "enabled_events": workflows.Types("stripe"),
		"livemode": false,
	})
	if err != nil {
		panic("dev: " + err.Error()) // encoding strings cannot fail
	}
	return []json.RawMessage{object}
}

// makeAllKeys creates the secrets of all providers and of the destination.
func (s *Stack) makeAllKeys() error {
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		if err := s.makeKeys(name, s.Providers[name]); err != nil {
			return err
		}
	}
	return s.makeKeys("destination", standardwebhooks.Provider)
}

// makeKeys creates the secret of a source or destination in the file of this name under secrets/, unless it exists. A
// provider's private key is stored beside it, for `pawl send --key`.
func (s *Stack) makeKeys(name string, provider webhook.Provider) error {
	file := filepath.Join(s.Dir, "secrets", name)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	keys, err := provider.Sample.NewKeys()
	if err != nil {
		return fmt.Errorf("make keys of %s: %w", name, err)
	}
	if keys.Pair() { // write this key first, because the public key is useless without it
		if err := os.WriteFile(file+".key", []byte(keys.Sign+"\n"), 0o600); err != nil {
			return fmt.Errorf("write private key: %w", err)
		}
	}
	if err := os.WriteFile(file, []byte(keys.Verify+"\n"), 0o600); err != nil {
		return fmt.Errorf("write signing secret: %w", err)
	}
	return nil
}
