package account

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
)

// knowing lists the sources that can have accounts in the mode. If only is set, the other sources are ignored.
func knowing(all map[string]decide.APISource, mode, only string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if of := all[name].Mode; (of == "" || of == mode) && (only == "" || only == name) {
			names = append(names, name)
		}
	}
	return names
}

// ReconcileAll returns a job that compares the accounts that match u with the sources in the same modes. If source is
// set, it uses only that source.
func ReconcileAll(ctx context.Context, o *decide.Operator, u account.Uncompared, source string) (*decide.NewJob,
	error) {
	for _, mode := range []string{"live", "test"} {
		if len(knowing(o.APIs, mode, source)) > 0 {
			u.Modes = append(u.Modes, mode)
		}
	}
	if len(u.Modes) == 0 {
		return nil, errors.New("no source has an api_key: set a restricted key with read permissions for a source of provider stripe, as api_key: env:NAME")
	}
	names, err := account.ToCompare(ctx, o.DB, u)
	if err != nil {
		return nil, err
	}
	j := &decide.NewJob{Job: job.Job{Action: job.Reconcile, Filter: map[string]string{"all": "true"}}}
	if source != "" {
		j.Filter["source"] = source
	}
	for _, name := range names {
		j.Others = append(j.Others, Item(name.Mode, name.ID))
	}
	return j, nil
}
