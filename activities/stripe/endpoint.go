package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	api "github.com/stripe/stripe-go/v76"

	"github.com/pawlhq/pawl/activities/effect"
)

// Endpoints returns the account's webhook endpoints, of the key's mode. Errors are like those of
// [Client.Object], and [ErrForbidden] is in that of a key without the permission.
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
				return nil, effect.Fault("%s: an endpoint that cannot be read: %w", c.host, err)
			}
			all, after = append(all, e), l.ID
		}
	}
	return all, nil
}

// DefaultVersion returns the API version that the account has by default, by its newest event; "" where it has none.
// An endpoint that names no version of its own sends in this one.
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

// testedVersions are the versions of the API whose payloads the tests of this package and of the flows read.
var testedVersions = []string{"2022-11-15", "2023-10-16", "2024-09-30.acacia", "2024-10-28.acacia", "2025-03-31.basil",
	"2025-09-30.clover", Version}

// Tested reports whether payloads of a version were tested: those of the version itself, of a date between the first
// one and acacia, or of a release of the same name. Stripe changes shapes with a name alone.
func Tested(version string) bool {
	date, name, _ := strings.Cut(version, ".")
	return slices.ContainsFunc(testedVersions, func(tested string) bool {
		_, of, _ := strings.Cut(tested, ".")
		return tested == version || name != "" && of == name
	}) || name == "" && len(date) == len(testedVersions[0]) && date >= testedVersions[0] && date < testedVersions[2]
}
