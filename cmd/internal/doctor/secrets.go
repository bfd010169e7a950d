package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/receipt"
)

// secrets adds findings about the age and the use of each secret, and about sources with a last secret that expires
// soon.
func (d *Doctor) secrets(ctx context.Context, f *findings) error {
	uses, err := receipt.NewReader(d.Pool).SecretUses(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, s := range report.Sources(d.Config, uses, now, report.UnusedFor) {
		for _, secret := range s.Secrets {
			level, do, found := judge(s, secret, now)
			if d.Config.Dev.Enabled && level == Warn {
				level = OK
			}
			f.add(level, s.Name+" "+secret.Label, do, "%s", found)
		}
	}
	_, err = d.conditions(ctx, f, condition.Secret)
	return err
}

func judge(s report.Source, secret report.Secret, now time.Time) (level Level, do, found string) {
	used := ""
	if secret.LastUsed != nil {
		used = fmt.Sprintf("; last used %s ago, %s in the 90 days before", ago(now.Sub(*secret.LastUsed)),
			output.Plural(int(secret.Uses), "time"))
	}
	if secret.NotBefore != nil && now.After(*secret.NotBefore) {
		used += fmt.Sprintf("; %s old", ago(now.Sub(*secret.NotBefore)))
	}
	found = secret.Verdict + used
	switch {
	case strings.HasPrefix(secret.Verdict, "expired ") && !secret.Active:
		return Fail, "add the provider's current secret, and restart the ingress", found
	case secret.SafeToRemove:
		return Warn, "remove the secret from the configuration, and restart the ingress", found
	case secret.Active && secret.LastUsed == nil:
		return Warn, "check at the provider that it sends to " + s.Path +
				" and signs with this secret, and let it send a test event",
			"never used: no delivery was signed with it" + used
	}
	return OK, "", found
}

// ago formats a duration in a suitable unit.
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
