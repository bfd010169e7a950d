package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// probes are the examinations of the ways to the sources.
func (a *app) probes(cfg *config.Config, receipts *receipt.Store, f doctorFlags) ([]operator.Examination, error) {
	if u, err := url.Parse(f.url); f.url != "" &&
		(err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "") {
		return nil, usagef("--url: %q is no http or https URL: write it whole, such as https://hooks.example.com", f.url)
	}
	names := slices.Sorted(maps.Keys(cfg.Sources))
	if f.source != "" {
		if !slices.Contains(names, f.source) {
			return nil, fmt.Errorf("no source %q is configured; there are: %s", f.source, strings.Join(names, ", "))
		}
		names = []string{f.source}
	}
	var all []operator.Examination
	for _, name := range names {
		to := cfg.Sources[name].URL
		if f.url != "" {
			to = strings.TrimRight(f.url, "/") + "/hooks/" + name
		}
		all = append(all, operator.Examination{
			Area: "probe", Name: name, Do: "see what stands before the ingress: a proxy, a firewall",
			Examine: func(ctx context.Context) []operator.Finding {
				finding := probe(ctx, cfg, receipts, name, to)
				finding.Area, finding.Check = "probe", name
				return []operator.Finding{finding}
			},
		})
	}
	return all, nil
}

// keptWithin is how long a probe that was answered may take to show in the database: it was committed before.
const keptWithin = 2 * time.Second

// probe sends one probe to a source through the URL to, and waits until it has arrived.
func probe(ctx context.Context, cfg *config.Config, receipts *receipt.Store, name, to string) operator.Finding {
	if to == "" {
		return operator.Finding{Level: operator.Fail, Found: "nothing says where its public URL is",
			Do: "set ingress.public_url, or the source's url; or give --url"}
	}
	s := cfg.Sources[name]
	target, err := (&sendFlags{url: to}).target(cfg, name)
	if err != nil {
		return operator.Finding{Level: operator.OK, Found: "cannot be probed: " + cannotSign(err)}
	}
	if target.SignedURL == "" {
		target.SignedURL = s.URL
	}
	verifier, err := providers()[s.Provider].New(cfg.Settings(name))
	if err != nil {
		return operator.Finding{Level: operator.Fail, Found: oneLine(err), Do: "`pawl config check`"}
	}
	req, mark, err := target.Probe(ctx, name, verifier,
		forge.Params{Provider: providers()[s.Provider], Live: s.Mode == webhook.Live})
	if err != nil {
		return operator.Finding{Level: operator.Fail, Found: oneLine(err), Do: "`pawl config check`"}
	}
	client := activities.NewHTTPClient() // it follows no redirect, as providers do not
	defer client.CloseIdleConnections()
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // the URL may hold a secret
		}
		return operator.Finding{
			Level: operator.Fail, Found: rejected.ShownURL(to) + " cannot be reached: " + oneLine(err),
			Do: "check the URL, its DNS entry and certificate, and what stands before the ingress",
		}
	}
	took := time.Since(begin)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what is cut off says nothing
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return refusedProbe(req, resp, body)
	}
	if !arrived(ctx, receipts, name, mark.ID) {
		return operator.Finding{
			Level: operator.Fail,
			Found: fmt.Sprintf("%s answered %d, and this database has no probe", rejected.ShownURL(to),
				resp.StatusCode),
			Do: "see where the URL leads: another pawl, or something else, answers there",
		}
	}
	return operator.Finding{Level: operator.OK,
		Found: fmt.Sprintf("%s answered %d in %s, and the probe is kept", rejected.ShownURL(to), resp.StatusCode,
			took.Round(time.Millisecond))}
}

// arrived reports whether the probe is in the database.
func arrived(ctx context.Context, receipts *receipt.Store, source, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, keptWithin)
	defer cancel()
	for {
		if _, err := receipts.Probe(ctx, source, id); err == nil {
			return true
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
}

// refusedProbe says what an answer means by which a probe was not taken. Our own answers have a class.
func refusedProbe(req *http.Request, resp *http.Response, body []byte) operator.Finding {
	var said struct{ Error string }
	_ = json.Unmarshal(body, &said) // what is not ours has no class
	f := operator.Finding{Level: operator.Fail,
		Found: fmt.Sprintf("%s answered %d", rejected.ShownURL(req.URL.String()), resp.StatusCode)}
	if said.Error != "" {
		f.Found += " (" + clean(said.Error) + ")"
	}
	headers := strings.Join(sentHeaders(req.Header), ", ")
	switch class := webhook.Class(said.Error); {
	case resp.StatusCode/100 == 3:
		f.Do = "give providers the URL that it leads to (" + clean(rejected.ShownURL(resp.Header.Get("Location"))) +
			"): they follow no redirect"
	case class == webhook.MissingHeader:
		f.Do = "something on the way drops a header: have it pass " + headers +
			" (`pawl rejections list` has what came)"
	case class != "" && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusBadRequest):
		f.Do = "something on the way changes the body or " + headers + ", or the ingress has other secrets, or another clock (`pawl rejections list` has what came)"
	case resp.StatusCode == http.StatusNotFound && said.Error == "unknown_source":
		f.Do = "the ingress there has no such source: deploy this configuration, and restart it"
	case resp.StatusCode == http.StatusNotFound:
		f.Do = "have the proxy forward /hooks/ to the ingress, with the path as it is"
	case resp.StatusCode == http.StatusForbidden && said.Error == "address_not_allowed":
		f.Level, f.Do = operator.Warn, "the source's allow_from keeps this host out, as it should strangers: run this where the provider's networks are not asked for, or see trusted_proxies"
	case resp.StatusCode == http.StatusRequestEntityTooLarge:
		f.Do = "have the proxy let bodies of 1 MiB and more through"
	case resp.StatusCode == http.StatusServiceUnavailable && said.Error != "":
		f.Do = "the ingress is there and cannot commit, or takes no more: see the database, and its log"
	default:
		f.Do = "see the log of what stands before the ingress, and whether that runs (`pawl ready ingress`)"
	}
	return f
}

// sentHeaders are the provider's own of a request, which have to arrive.
func sentHeaders(h http.Header) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if name != "Content-Type" && name != "User-Agent" && name != "Accept" {
			names = append(names, name)
		}
	}
	return names
}

// cannotSign says why a source's delivery cannot be signed here, without the way out that pawl send has.
func cannotSign(err error) string {
	says, _, _ := strings.Cut(oneLine(err), ": give the private key")
	return says
}
