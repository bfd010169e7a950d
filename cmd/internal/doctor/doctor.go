// Package doctor checks the services and settings that pawl depends on, and recommends what to do.
package doctor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Level is the severity of a finding.
type Level string

// The levels: no problem, a warning, or a failure that prevents pawl from receiving or processing events.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is a result of a check.
type Finding struct {
	// Area is the checked part of pawl, such as "database". Check is the subject within the area.
	Area  string `json:"area"`
	Check string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	// Do is the recommended action. It is empty if no action is needed.
	Do string `json:"do,omitempty"`
}

// Report lists the findings of all checks.
type Report struct {
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
}

// Failed reports whether a check has failed.
func (r *Report) Failed() bool { return !r.OK }

// Doctor runs the checks. All fields are required.
type Doctor struct {
	// File is the name of the configuration file.
	File      string
	Config    *config.Config
	Providers map[string]webhook.Provider
	Pool      *pgxpool.Pool
	Temporal  client.Client
	// Rules are the billing rules of the configuration.
	Rules fact.Policy
}

// check examines one area.
type check struct {
	// area is the area of all findings of the check. If run returns an error, name and do are the subject and the
	// recommended action of the finding about this error.
	area, name, do string
	// run executes the check and adds findings. It returns an error if it could not finish.
	run func(context.Context, *findings) error
}

// findings collects the findings of one check.
type findings struct {
	area string
	list []Finding
}

func (f *findings) add(level Level, check, do, found string, args ...any) {
	if len(args) > 0 {
		found = fmt.Sprintf(found, args...)
	}
	if level == OK {
		do = ""
	}
	f.list = append(f.list, Finding{f.area, check, level, found, do})
}
