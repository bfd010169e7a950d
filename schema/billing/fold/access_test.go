package fold_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/billing/billingtest"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// The version of a target is the number of its changes. An account that never had a grant has no change to publish.
func TestTarget_After_VersionCountsChanges(t *testing.T) {
	t.Parallel()
	target := func(plans ...string) fold.Target {
		var grants []fold.Grant
		for _, plan := range plans {
			grants = append(grants, fold.Grant{Object: "sub_" + plan, Plan: plan, Quantity: 1})
		}
		return fold.TargetOf(grants, billingtest.Begin, billingtest.Policy)
	}
	var last fold.Target
	for _, step := range []struct {
		name   string
		target fold.Target
		want   int64
	}{
		{"nothing was ever granted", target(), 0}, {"granted", target("pro"), 1}, {"the same again", target("pro"), 1},
		{"a lower plan beside it", target("pro", "starter"), 1}, {"a higher one", target("pro", "enterprise"), 2},
		{"nothing", target(), 3}, {"still nothing", target(), 3}, {"granted again", target("pro"), 4},
		{"an add-on alone", fold.TargetOf([]fold.Grant{{Object: "sub_1", AddOns: []string{"sso"}}}, billingtest.Begin, billingtest.Policy), 5},
	} {
		last = step.target.After(last)
		if (last.Version == 0) != (last.State == "") {
			t.Errorf("%s: %+v has a version or a state alone", step.name, last)
		}
		if last.Version != step.want {
			t.Errorf("%s: version %d of %+v, want %d", step.name, last.Version, last, step.want)
		}
	}
}
