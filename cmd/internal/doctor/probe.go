package doctor

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
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/send"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// probe sends one probe to a source through its public URL, and waits until it has arrived.
func (d *Doctor) probe(name string) func(context.Context, *findings) error {
	return func(ctx context.Context, f *findings) error {
		to, provider := d.Config.Sources[name].URL, d.Providers[d.Config.Sources[name].Provider]
		if d.URL != "" {
			to = strings.TrimRight(d.URL, "/") + "/hooks/" + name
		}
		if to == "" {
			f.add(Fail, name, "set ingress.public_url, or the source's url; or give --url",
				"nothing says where its public URL is")
			return nil
		}
		target, err := send.Target(d.Config, d.Providers, name, to, "")
		if err != nil {
			says, _, _ := strings.Cut(output.FirstLine(err), ": give the private key") // doctor takes none
			f.add(OK, name, "", "cannot be probed: %s", says)
			return nil
		}
		if target.SignedURL == "" {
			target.SignedURL = d.Config.Sources[name].URL
		}
		verifier, err := provider.New(d.Config.Settings(name))
		if err != nil {
			f.add(Fail, name, "`pawl config check`", "%s", output.FirstLine(err))
			return nil
		}
		req, mark, err := target.Probe(ctx, name, verifier,
			forge.Params{Provider: provider, Live: d.Config.Sources[name].Mode == webhook.Live})
		if err != nil {
			f.add(Fail, name, "`pawl config check`", "%s", output.FirstLine(err))
			return nil
		}
		d.deliver(ctx, f, name, to, req, mark)
		return nil
	}
}

// deliver posts a probe and says what came of it.
func (d *Doctor) deliver(ctx context.Context, f *findings, name, to string, req *http.Request, mark webhook.Probe) {
	client := activities.NewHTTPClient() // it follows no redirect, as providers do not
	defer client.CloseIdleConnections()
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // the URL may hold a secret
		}
		f.add(Fail, name, "check the URL, its DNS entry and certificate, and what stands before the ingress",
			"%s cannot be reached: %s", rejected.ShownURL(to), output.FirstLine(err))
		return
	}
	took := time.Since(begin)
	_, lost := receipt.NewReader(d.Pool).Probe(ctx, name, mark.ID) // a probe is committed before it is answered
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))        // the beginning is enough
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode/100 != 2:
		f.refused(name, req, resp, body)
	case lost != nil:
		f.add(Fail, name, "see where the URL leads: another pawl, or something else, answers there",
			"%s answered %d, and this database has no probe", rejected.ShownURL(to), resp.StatusCode)
	default:
		f.add(OK, name, "", "%s answered %d in %s, and the probe is kept", rejected.ShownURL(to), resp.StatusCode,
			took.Round(time.Millisecond))
	}
}

// refused says why an answer did not take the probe. Our own answers have a class.
func (f *findings) refused(name string, req *http.Request, resp *http.Response, body []byte) {
	var said struct{ Error string }
	_ = json.Unmarshal(body, &said) // an answer of somebody else has no class
	level := Fail
	var do string
	headers := strings.Join(sentHeaders(req.Header), ", ")
	switch class := webhook.Class(said.Error); {
	case resp.StatusCode/100 == 3:
		do = "give providers the URL that it leads to (" + rejected.ShownURL(resp.Header.Get("Location")) +
			"): they follow no redirect"
	case class == webhook.MissingHeader:
		do = "something on the way drops a header: have it pass " + headers +
			" (`pawl rejections list` has what came)"
	case class != "" && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusBadRequest):
		do = "something on the way changes the body or " + headers + ", or the ingress has other secrets, or another clock (`pawl rejections list` has what came)"
	case resp.StatusCode == http.StatusNotFound && said.Error == "unknown_source":
		do = "the ingress there has no such source: deploy this configuration, and restart it"
	case resp.StatusCode == http.StatusNotFound:
		do = "have the proxy forward /hooks/ to the ingress, with the path as it is"
	case resp.StatusCode == http.StatusForbidden && said.Error == "address_not_allowed":
		level, do = Warn, "the source's allow_from keeps this host out, as it should strangers: run this where the provider's networks are not asked for, or see trusted_proxies"
	case resp.StatusCode == http.StatusRequestEntityTooLarge:
		do = "have the proxy let bodies of 1 MiB and more through"
	case resp.StatusCode == http.StatusServiceUnavailable && said.Error != "":
		do = "the ingress is there and cannot commit, or takes no more: see the database, and its log"
	default:
		do = "see the log of what stands before the ingress, and whether that runs (`pawl ready ingress`)"
	}
	found := fmt.Sprintf("%s answered %d", rejected.ShownURL(req.URL.String()), resp.StatusCode)
	if said.Error != "" {
		found += " (" + said.Error + ")"
	}
	f.add(level, name, do, "%s", found)
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
