package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A source's verifier looks into the database before it asks PayPal, and does without where that is away.
func TestIngressSource_ArchiveIsAsked(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{})
	write(t, s.file, strings.Replace(read(t, s.file), "sources:\n", "sources:\n  pay: {provider: paypal, mode: live, options: {webhook_id: WH-1, certificates: fetch}}\n", 1))
	cfg, err := config.Load(s.file, s.variable, providers())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := providers()["paypal"].Sample.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	out, err := providers()["paypal"].Sign(webhook.SignInput{Secret: keys.Sign, At: now, Options: map[string]string{"webhook_id": "WH-1"}, Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	pool := schematest.New(t)
	kept := process.NewArchive(pool, slog.New(slog.NewTextHandler(&log, nil)))
	kept.Save(t.Context(), out.Header.Get("Paypal-Cert-Url"), []byte(keys.Verify))
	// Self-signed, so that it is refused once more; without the network that is all there is to see.
	offline, cancel := context.WithCancel(t.Context())
	cancel()
	asked := &counting{Archive: kept}
	source, err := process.Source(cfg, providers(), "pay", asked)
	if err != nil {
		t.Fatal(err)
	}
	request := &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: now}
	if _, err := source.Readmit(offline, request); err == nil || len(asked.loaded) != 1 {
		t.Errorf("admitted: %v; loaded %v, want the one that was saved", err, asked.loaded)
	}
	pool.Close()
	if all := kept.Load(t.Context()); len(all) != 0 || !strings.Contains(log.String(), "fetched anew") {
		t.Errorf("with the database away: %v, %s", all, log.String())
	}
}

type counting struct {
	webhook.Archive
	loaded map[string][]byte
}

func (c *counting) Load(context.Context) map[string][]byte {
	c.loaded = c.Archive.Load(context.Background())
	return c.loaded
}
