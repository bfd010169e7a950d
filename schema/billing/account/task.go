package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/schema"
)

// Task is a task for a person about an object. An object has at most one task of each kind.
type Task struct {
	Mode    string    `json:"mode"`
	Kind    string    `json:"kind"`
	Object  string    `json:"object"`
	Account string    `json:"account"`
	Title   string    `json:"title"`
	Since   time.Time `json:"opened_at"`
	// Event is the ID of the event that opened the task.
	Event string `json:"event"`
	// DueBy is the deadline. It is absent if the task has no deadline.
	DueBy *time.Time `json:"due_at,omitempty"`
	// TakenBy is the person who works on the task. It is absent if the task is free.
	TakenBy string `json:"taken_by,omitempty"`
	// Amount is the money that the task is about, in minor units of Currency. It is 0 for a task without money.
	Amount   int64  `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// State is [fold.TaskOpen] or another state of a task.
	State string `json:"state"`
	// Number is the number of the invoice that the task is about. It is absent for a task about something else.
	Number string `json:"number,omitempty"`
}

// ID returns the ID of the object in the provider. The object of a task about a price also contains the account.
func (t Task) ID() string { return t.Object[strings.LastIndex(t.Object, ":")+1:] }

// Count counts the open tasks of one kind and mode.
type Count struct {
	Kind  string `json:"kind"`
	Mode  string `json:"mode"`
	Tasks int    `json:"tasks"`
	// About is the price or the connected account that the tasks have in common. It is absent for other kinds of tasks,
	// and if tasks are counted by kind only.
	About string `json:"about,omitempty"`
	// Oldest is the creation time of the oldest task. DueBy is the earliest deadline, or null.
	Oldest time.Time  `json:"oldest_at"`
	DueBy  *time.Time `json:"due_at,omitempty"`
	// Money is the sum of the amounts of the tasks, in minor units by currency.
	Money map[string]int64 `json:"money,omitempty"`
}

// CountTasks counts the open tasks. Tasks of live mode come first, sorted by their earliest deadline. If byAbout is
// true, each price and each connected account is counted separately.
func CountTasks(ctx context.Context, db DB, byAbout bool) ([]Count, error) {
	return schema.Rows(ctx, db, "count the open tasks", pgx.RowToStructByPos[Count], countTasksSQL, byAbout)
}

// TaskFilter selects open tasks. An empty field selects all.
type TaskFilter struct {
	Mode, Kind string
	// About selects tasks about a price or a connected account.
	About string
	// Account is the account in pawl.
	Account string
	// After is the last task of the previous page, identified by its mode, kind and object. The task may have been
	// closed since.
	After Task
	Limit int
}

// OpenTasks returns the open tasks, ordered by deadline, and then by age.
func OpenTasks(ctx context.Context, db DB, f TaskFilter) ([]Task, error) {
	return schema.Rows(ctx, db, "read tasks", pgx.RowToStructByPos[Task], openTasksSQL, f.Mode, f.Kind, f.About,
		f.Account, f.Limit,
		f.After.Mode, f.After.Kind, f.After.Object)
}

// TasksAbout returns the open and closed tasks about an object, one per kind and mode.
func TasksAbout(ctx context.Context, db DB, object string) ([]Task, error) {
	return schema.Rows(ctx, db, "read the tasks about "+object, pgx.RowToStructByPos[Task], tasksAboutSQL, object)
}

// Done marks an open task as done. It returns false if there is no such open task.
func Done(ctx context.Context, db Execer, t Task) (bool, error) {
	tag, err := db.Exec(ctx, doneSQL, t.Mode, t.Kind, t.Object)
	if err != nil {
		return false, fmt.Errorf("close task %s of %s: %w", t.Kind, t.Object, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Take assigns an open task to TakenBy. It returns false if there is no such open task.
func Take(ctx context.Context, db Execer, t Task) (bool, error) {
	tag, err := db.Exec(ctx, takeSQL, t.Mode, t.Kind, t.Object, t.TakenBy)
	if err != nil {
		return false, fmt.Errorf("take task %s of %s: %w", t.Kind, t.Object, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Execer is a pool or a transaction of pgx.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}
