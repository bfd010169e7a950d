package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

// schedules compares the configured schedules with the schedules in Temporal.
func (d *Doctor) schedules(ctx context.Context, f *findings) error {
	wanted := process.Schedules(d.Config)
	held, err := condition.Schedules(ctx, d.Temporal, d.Config.Temporal.TaskQueue)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		name := strings.TrimPrefix(id, d.Config.Temporal.TaskQueue+":")
		i := slices.IndexFunc(held, func(s condition.Schedule) bool { return s.Name == name })
		if i < 0 {
			f.add(Warn, name, "start a worker with this configuration, which creates the schedule",
				"schedule %s does not exist", id)
			continue
		}
		switch s := held[i]; {
		case s.Paused:
			f.add(Warn, name, "unpause it in the Temporal UI, under Schedules", "%s", s.Wants())
		case s.Wants() != "":
			f.add(Warn, name, "`pawl status` shows the next command, and the Temporal UI the run", "%s", s.Wants())
		case s.Last == nil:
			f.add(OK, name, "", "it has not run yet; next at %s", output.Date(s.Next))
		default:
			f.add(OK, name, "", "ran at %s: %s; next at %s", output.Date(s.Last), s.Came.Message, output.Date(s.Next))
		}
	}
	return nil
}
