package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/report"
)

func TestJudge_Secret(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	at := func(days int) *time.Time { v := now.AddDate(0, 0, days); return &v }
	for name, c := range map[string]struct {
		secrets []report.Secret
		level   Level
		found   string
	}{
		"in use":       {[]report.Secret{{Label: "a", Active: true, Uses: 7, LastUsed: at(-3), Verdict: "in use"}}, OK, "in use; last used 3 days ago, 7 times in the 90 days before"},
		"never used":   {[]report.Secret{{Label: "a", Active: true, Verdict: "keep: it is the only secret"}}, Warn, "never used: no delivery was signed with it"},
		"replaced":     {[]report.Secret{{Label: "a", Active: true, Uses: 1, LastUsed: at(-30), SafeToRemove: true, Verdict: "safe to remove"}, {Label: "b", Active: true}}, Warn, "safe to remove; last used 30 days ago"},
		"ended":        {[]report.Secret{{Label: "a", NotAfter: at(-1), Verdict: "expired on 2026-11-21, and no other secret is active"}}, Fail, "expired on 2026-11-21"},
		"old":          {[]report.Secret{{Label: "a", Active: true, Uses: 1, LastUsed: at(0), NotBefore: at(-100), NotAfter: at(3), Verdict: "in use"}}, OK, "; 100 days old"},
		"next is here": {[]report.Secret{{Label: "a", Active: true, Uses: 1, LastUsed: at(0), NotAfter: at(3), Verdict: "in use"}, {Label: "b"}}, OK, "in use"},
	} {
		level, _, found := judge(report.Source{Name: "stripe", Path: "/hooks/stripe", Secrets: c.secrets}, c.secrets[0], now)
		if level != c.level || !strings.Contains(found, c.found) {
			t.Errorf("%s: %s, %q, want %s and %q", name, level, found, c.level, c.found)
		}
	}
}
