package condition

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/notice"
)

// Table returns all kinds of conditions in the order in which they are shown.
func Table() []Kind {
	return []Kind{
		parked, repeated, unstarted, noWorker, uncertain,
		task, secondPerson, unassigned, unmapped, rules, job,
		sink, paused, destination, unsent,
		silent, failing, endpoints, rejected, unrouted, secret, schedule,
		auditTrail, refused, shed, slow, overdue, compensated, server,
	}
}

// Read returns the current conditions of these kinds, or of all kinds, in the order of the table. unread contains the
// kinds that could not be read.
func (r Reader) Read(ctx context.Context, kinds ...string) (found []notice.Condition, unread map[string]error) {
	r.now = time.Now()
	unread = map[string]error{}
	for _, k := range Table() {
		if !k.Queried() || len(kinds) > 0 && !slices.Contains(kinds, k.Name) {
			continue
		}
		list, err := k.read(ctx, r)
		if err != nil {
			unread[k.Name] = err
		}
		for _, c := range list {
			c.Name = k.Name + ":" + c.Name
			c.Count = max(c.Count, 1)
			maps.DeleteFunc(c.Labels, func(_, value string) bool { return value == "" })
			if c.Runbook == "" {
				c.Runbook = k.Runbook
			}
			found = append(found, c)
		}
	}
	return found, unread
}

// ReadAll is [Reader.Read] with one error for all kinds that could not be read.
func (r Reader) ReadAll(ctx context.Context, kinds ...string) ([]notice.Condition, error) {
	found, unread := r.Read(ctx, kinds...)
	var faults []error
	for kind, err := range unread {
		faults = append(faults, fmt.Errorf("read conditions of kind %s: %w", kind, err))
	}
	return found, errors.Join(faults...)
}

// Notified returns the conditions that people are notified about, without their details.
func Notified(found []notice.Condition) (list []notice.Condition) {
	for _, c := range found {
		if c.Severity != notice.Info {
			c.Detail = ""
			list = append(list, c)
		}
	}
	return list
}
