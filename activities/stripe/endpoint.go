package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v76"

	"github.com/pawlhq/pawl/activities/effect"
)

// Endpoints returns the account's webhook endpoints in the key's mode. Errors are as for [Client.Object]. The error
// for a key without permission wraps [ErrForbidden].
func (c *Client) Endpoints(ctx context.Context) (all []api.WebhookEndpoint, err error) {
	more := true
	for after := ""; more; {
		var page []Listed
		page, more, err = c.Page(ctx, List{Name: "webhook_endpoints"}, after, "")
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			var e api.WebhookEndpoint
			if err := json.Unmarshal(l.Body, &e); err != nil {
				return nil, effect.Fault("%s: an endpoint cannot be parsed: %w", c.host, err)
			}
			all, after = append(all, e), l.ID
		}
	}
	return all, nil
}

// DefaultVersion returns the default API version of the account, taken from its newest event. It returns "" if there
// are no events. An endpoint without a version sends events in this version.
func (c *Client) DefaultVersion(ctx context.Context) (string, error) {
	fetched, err := c.get(ctx, "/v1/events", "", url.Values{"limit": {"1"}})
	if err != nil {
		return "", fmt.Errorf("read the newest event: %w", err)
	}
	var list struct {
		Data []struct {
			APIVersion string `json:"api_version"`
		}
	}
	if err := json.Unmarshal(fetched.Body, &list); err != nil || len(list.Data) == 0 {
		return "", err
	}
	return list.Data[0].APIVersion, nil
}

// IsVersion reports whether version has the form of an API version: a date, followed since 2024-09-30 by the name of
// the release.
func IsVersion(version string) bool {
	date, name, named := strings.Cut(version, ".")
	_, err := time.Parse(time.DateOnly, date)
	return err == nil && len(name) <= 20 && named == (name != "") &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == ""
}

// testedVersions lists the API versions in the tests of the parsers and the flows.
var testedVersions = []string{"2022-11-15", "2023-10-16", "2024-09-30.acacia", "2024-10-28.acacia", "2025-03-31.basil",
	"2025-09-30.clover", "2026-08-26.dahlia", Version}

// Tested reports whether the parsers are tested with a version: it is in testedVersions, its date is between the first
// of them and acacia, or one of them has the same release name. Stripe changes formats only with a new release name.
func Tested(version string) bool {
	date, name, _ := strings.Cut(version, ".")
	return slices.ContainsFunc(testedVersions, func(tested string) bool {
		_, of, _ := strings.Cut(tested, ".")
		return tested == version || name != "" && of == name
	}) || name == "" && len(date) == len(testedVersions[0]) && date >= testedVersions[0] && date < testedVersions[2]
}
