package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/receipt"
)

// endsSoon is how long before its end the only secret of a source causes a warning.
const endsSoon = 14 * 24 * time.Hour

// secrets reports the age and the use of each secret.
func (d *Doctor) secrets(ctx context.Context, f *findings) error {
	uses, err := receipt.NewReader(d.Pool).SecretUses(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, s := range report.Sources(d.Config, uses, now, report.UnusedFor) {
		for _, secret := range s.Secrets {
			level, do, found := judge(s, secret, now)
			if d.Config.Dev && level == Warn {
				level = OK
			}
			f.add(level, s.Name+" "+secret.Label, do, "%s", found)
		}
	}
	return nil
}

func judge(s report.Source, secret report.Secret, now time.Time) (level Level, do, found string) {
	used := ""
	if secret.LastUsed != nil {
		used = fmt.Sprintf("; last used %s ago, %s in the 90 days until then", ago(now.Sub(*secret.LastUsed)),
			output.Plural(int(secret.Uses), "time"))
	}
	if secret.NotBefore != nil && now.After(*secret.NotBefore) {
		used += fmt.Sprintf("; %s old", ago(now.Sub(*secret.NotBefore)))
	}
	found = secret.Verdict + used
	successor := slices.ContainsFunc(s.Secrets, func(o report.Secret) bool {
		return o.Label != secret.Label &&
			(o.NotAfter == nil || secret.NotAfter != nil && o.NotAfter.After(*secret.NotAfter))
	})
	switch {
	case strings.HasPrefix(secret.Verdict, "ended ") && !secret.Active:
		return Fail, "add the next one, and restart the ingress", found
	case secret.SafeToRemove:
		return Warn, "remove it, and restart the ingress", found
	case secret.Active && secret.NotAfter != nil && secret.NotAfter.Sub(now) < endsSoon && !successor:
		return Warn, "add the next one before: its window ends " + report.Day(*secret.NotAfter), found
	case secret.Active && secret.LastUsed == nil:
		return Warn, "see at the provider whether it sends to " + s.Path +
				" and with this secret, and have it send a test event",
			"never used: no delivery was signed with it" + used
	}
	return OK, "", found
}

// ago formats a past duration in a suitable unit.
func ago(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return output.Plural(int(d.Hours()), "hour")
	case d >= 2*time.Minute:
		return output.Plural(int(d.Minutes()), "minute")
	}
	return output.Plural(int(d.Seconds()), "second")
}
