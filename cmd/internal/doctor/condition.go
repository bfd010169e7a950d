package doctor

import (
	"context"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/notice"
)

// conditions adds a finding for each current condition of the given kinds, and returns the conditions. A condition with
// severity page is a failure, any other a warning.
func (d *Doctor) conditions(ctx context.Context, f *findings, kinds ...string) ([]notice.Condition, error) {
	r := condition.Reader{Operator: &decide.Operator{Verbs: operator.Verbs, DB: d.Pool}, Config: d.Config}
	list, err := r.ReadAll(ctx, kinds...)
	for _, c := range list {
		level, do := Warn, "see "+d.Config.Notify.Runbooks+"/"+c.Runbook+".md"
		if c.Severity == notice.Page {
			level = Fail
		}
		if c.Command != "doctor" {
			do = "run `pawl " + c.Command + "`; " + do
		}
		found := Finding{f.area, c.Subject(), level, c.Message + output.WithReason(c.Detail), do}
		if c.Kind() == condition.Paused {
			found.Area, found.Check = c.Labels["kind"]+"s", c.Labels["name"]
		}
		f.list = append(f.list, found)
	}
	return list, err
}

// answers adds findings about the sources with a failed last delivery.
func (d *Doctor) answers(ctx context.Context, f *findings) error {
	failing, err := d.conditions(ctx, f, condition.Failing)
	if err == nil && len(failing) == 0 {
		f.add(OK, "5xx", "", "the last delivery of every source was stored")
	}
	return err
}

// sinks adds findings about the state and the credentials of each sink, and about paused sources.
func (d *Doctor) sinks(ctx context.Context, f *findings) error {
	down, err := d.conditions(ctx, f, condition.Sink, condition.Paused)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, c := range down {
		found[c.Name] = true
	}
	served := d.Config.Served()
	for _, s := range served {
		if !found[condition.Sink+":"+s.Name] && !found[condition.Paused+":sink:"+s.Name] {
			f.add(OK, s.Name, "", "up; %s", s.Credentials)
		}
	}
	if len(served) == 0 {
		f.add(Warn, "configured", "configure sinks or destinations, unless pawl must not have any",
			"no sink is configured: effects change only pawl's database")
	}
	return nil
}
