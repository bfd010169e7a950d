package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/receipt"
)

func TestSources_Verdicts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	ago := func(days int) time.Time { return now.AddDate(0, 0, -days) }
	for name, c := range map[string]struct {
		secrets []config.Secret
		uses    []receipt.SecretUse
		label   string
		safe    bool
		says    string
	}{
		"in use":                     {[]config.Secret{{Label: "a"}, {Label: "b"}}, []receipt.SecretUse{{Source: "s", Label: "a", Uses: 3, LastUsed: ago(1)}}, "a", false, "in use"},
		"left for another":           {[]config.Secret{{Label: "a"}, {Label: "b"}}, []receipt.SecretUse{{Source: "s", Label: "a", Uses: 3, LastUsed: ago(10)}, {Source: "s", Label: "b", LastUsed: ago(1)}}, "a", true, "not used since 2026-03-21, and b is in use"},
		"left, perhaps by another":   {[]config.Secret{{Label: "secret-1", ByPlace: true}, {Label: "secret-2", ByPlace: true}}, []receipt.SecretUse{{Source: "s", Label: "secret-2", Uses: 3, LastUsed: ago(10)}, {Source: "s", Label: "secret-1", LastUsed: ago(1)}}, "secret-2", false, "it has no label"},
		"left, and nothing else":     {[]config.Secret{{Label: "a"}, {Label: "b"}}, []receipt.SecretUse{{Source: "s", Label: "a", Uses: 3, LastUsed: ago(10)}}, "a", false, "no other secret is in use"},
		"left, other long ago":       {[]config.Secret{{Label: "a"}, {Label: "b"}}, []receipt.SecretUse{{Source: "s", Label: "a", LastUsed: ago(10)}, {Source: "s", Label: "b", LastUsed: ago(9)}}, "a", false, "no other secret is in use"},
		"left, other's window over":  {[]config.Secret{{Label: "a"}, {Label: "b", NotAfter: ago(2)}}, []receipt.SecretUse{{Source: "s", Label: "a", LastUsed: ago(10)}, {Source: "s", Label: "b", LastUsed: ago(3)}}, "a", false, "no other secret is in use"},
		"only one":                   {[]config.Secret{{Label: "a"}}, nil, "a", false, "only secret"},
		"the next one":               {[]config.Secret{{Label: "a"}, {Label: "b"}}, []receipt.SecretUse{{Source: "s", Label: "a", LastUsed: ago(0)}}, "b", false, "never used"},
		"window over":                {[]config.Secret{{Label: "a", NotAfter: ago(1)}, {Label: "b"}}, []receipt.SecretUse{{Source: "s", Label: "a", LastUsed: ago(2)}}, "a", true, "expired on 2026-03-30"},
		"window over, the only one":  {[]config.Secret{{Label: "a", NotAfter: ago(1)}}, nil, "a", false, "expired on 2026-03-30"},
		"window over, other to come": {[]config.Secret{{Label: "a", NotAfter: ago(1)}, {Label: "b", NotBefore: now.AddDate(0, 0, 1)}}, nil, "a", false, "no other secret is active"},
		"window to come":             {[]config.Secret{{Label: "a"}, {Label: "b", NotBefore: now.AddDate(0, 0, 1)}}, nil, "b", false, "becomes active on 2026-04-01"},
		"used at another source":     {[]config.Secret{{Label: "a"}, {Label: "b"}}, []receipt.SecretUse{{Source: "other", Label: "a", LastUsed: ago(0)}, {Source: "s", Label: "b", LastUsed: ago(0)}}, "a", false, "never used"},
		"window over, still used":    {[]config.Secret{{Label: "a", NotAfter: now.Add(time.Hour)}}, []receipt.SecretUse{{Source: "s", Label: "a", LastUsed: ago(0)}}, "a", false, "in use"},
		"fetched":                    {nil, []receipt.SecretUse{{Source: "s", Label: "certificate badc0de", Uses: 3, LastUsed: ago(0)}}, "certificate badc0de", false, "fetched"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reports := report.Sources(&config.Config{Sources: map[string]config.Source{"s": {Provider: "stripe", Secrets: c.secrets}}}, c.uses, now, report.UnusedFor)
			i := slices.IndexFunc(reports[0].Secrets, func(s report.Secret) bool { return s.Label == c.label })
			if i < 0 {
				t.Fatalf("%s is not told of: %+v", c.label, reports)
			}
			if s := reports[0].Secrets[i]; s.SafeToRemove != c.safe || !strings.Contains(s.Verdict, c.says) {
				t.Errorf("safe %t, %q; want %t and %q", s.SafeToRemove, s.Verdict, c.safe, c.says)
			}
		})
	}
}
