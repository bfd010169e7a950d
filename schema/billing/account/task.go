package account

import (
	"context"
	"fmt"
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
	Since   time.Time `json:"since"`
	// Event is the event that opened it.
	Event string `json:"event"`
	// DueBy is when it is too late, nil for never.
	DueBy *time.Time `json:"due_by,omitempty"`
	// TakenBy is who sees to it, "" for nobody.
	TakenBy string `json:"taken_by,omitempty"`
	// Amount is the money that the task is about, in minor units of Currency. It is 0 for a task without money.
	Amount   int64  `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// State is one of [fold.TaskOpen] and its like.
	State string `json:"state"`
}

// Count counts the open tasks of one kind and mode.
type Count struct {
	Kind  string `json:"kind"`
	Mode  string `json:"mode"`
	Tasks int    `json:"tasks"`
	// About is the price, or the connected account, that they ask about; "" for other kinds, and where they are not
	// counted by that.
	About string `json:"about,omitempty"`
	// Oldest is since when the first of them is open, DueBy the nearest time when one is too late, nil for none.
	Oldest time.Time  `json:"oldest"`
	DueBy  *time.Time `json:"due_by,omitempty"`
	// Money is the sum of the amounts of the tasks, in minor units by currency.
	Money map[string]int64 `json:"money,omitempty"`
}

// CountTasks counts the open tasks: live ones first, and first those that are due next. Where they are counted by what
// they ask about, each price and each connected account has a count of its own.
func CountTasks(ctx context.Context, db DB, byAbout bool) ([]Count, error) {
	return schema.Rows(ctx, db, "read the counts of tasks", pgx.RowToStructByPos[Count], countTasksSQL, byAbout)
}

// TaskFilter chooses open tasks; "" is for all.
type TaskFilter struct {
	Mode, Kind string
	// About is the price, or the connected account, that the tasks ask about.
	About string
	// Account is the account of ours that they are about.
	Account string
	// After is the task behind which the list goes on, by its mode, kind and object; it may be closed by now.
	After Task
	Limit int
}

// OpenTasks lists the open tasks: first those that are due, the nearest first, then the oldest.
func OpenTasks(ctx context.Context, db DB, f TaskFilter) ([]Task, error) {
	return schema.Rows(ctx, db, "read tasks", pgx.RowToStructByPos[Task], openTasksSQL, f.Mode, f.Kind, f.About,
		f.Account, f.Limit,
		f.After.Mode, f.After.Kind, f.After.Object)
}

// TasksAbout returns the tasks about an object, also those that are closed: one for each kind and mode.
func TasksAbout(ctx context.Context, db DB, object string) ([]Task, error) {
	return schema.Rows(ctx, db, "read the tasks about "+object, pgx.RowToStructByPos[Task], tasksAboutSQL, object)
}

// Done closes an open task as done. It returns false if there is no such open task.
func Done(ctx context.Context, db Execer, t Task) (bool, error) {
	tag, err := db.Exec(ctx, doneSQL, t.Mode, t.Kind, t.Object)
	if err != nil {
		return false, fmt.Errorf("close task %s of %s: %w", t.Kind, t.Object, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Take gives an open task to TakenBy. It returns false if there is no such open task.
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
