package internal_test

import (
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retiredFields maps retired JSON fields to their successors.
var retiredFields = map[string]string{
	"says": "message", "why": "reason", "because": "event, the ID of the deciding event", "cause": "reason",
	"who": "actor", "asked_by": "requested_by", "asked_at": "requested_at", "made_by": "created_by", "made_at": "created_at",
	"proposed_by": "process", "at": "a name with _at", "ends": "ends_at", "over": "ended_at", "due_by": "due_at",
	"left": "remaining", "left_out": "omitted", "untold": "unexplained", "told": "notified_at", "unclaimed": "unassigned",
	"ours": "pawl", "theirs": "provider", "was": "before", "is": "after", "folded": "computed", "gone": "missing",
	"does": "effect", "will": "forecast", "in_force": "active", "round": "attempt_group",
}

// retiredNames maps retired metrics, alerts and reason codes to their successors.
var retiredNames = map[string]string{
	"pawl_sink_places": "pawl_sink_in_flight_max", "pawl_pool_places": "pawl_pool_connections_max",
	"pawl_database_places": "pawl_database_connections_max", "pawl_backlog": "pawl_dispatch_backlog",
	"pawl_backlog_oldest_seconds": "pawl_dispatch_backlog_oldest_seconds",
	"pawl_source_countdown":       "pawl_source_disable_progress_ratio",
	"pawl_secret_ends_seconds":    "pawl_secret_expiry_timestamp_seconds",
	"pawl_endpoint_looked":        "pawl_endpoint_checked", "pawl_endpoint_looked_seconds": "pawl_endpoint_checked_seconds",
	"pawl_sink_out": "pawl_sink_down", "pawl_sink_out_seconds": "pawl_sink_down_seconds", "PawlSinkOut": "PawlSinkDown",
	"pawl_subscriptions_not_ours": "pawl_subscriptions_ignored", "pawl_money_unclaimed": "pawl_payments_unassigned", "PawlMoneyUnclaimed": "PawlPaymentsUnassigned",
	"pawl_due_oldest": "pawl_scheduled_actions_oldest", "pawl_due_oldest_seconds": "pawl_scheduled_actions_oldest_seconds",
	"sink_out": "sink_down", "not_ours": "product_ignored", "another_run": "foreign_run", "run_stuck": "workflow_task_failing",
	"run_ended": "run_terminated", "waits_for_entry": "waiting_for_entry", "type_not_wanted": "type_ignored",
	"mode_not_wanted": "mode_ignored", "account_not_wanted": "account_ignored",
	"no_consumer": "no_destination", "unconsumed": "unrouted",
}

// retiredWords maps retired terms to their successors.
var retiredWords = map[string]string{
	"meaning": "rules", "unclaimed": "unassigned", "pawl money": "pawl payments, pawl entries",
}

// recorded lists files with JSON of recorded workflow histories and of stored rows, which keeps its fields.
var recorded = []string{"schema/receipt/rerun.go", "schema/receipt/transition.go"}

var (
	fieldTag = regexp.MustCompile(`json:"([a-z_]+)[",]`)
	property = regexp.MustCompile(`(?m)^ {8}([a-z_]+): \{`)
	anyName  = regexp.MustCompile(`\w+`)
	// tableHead is the head of a column that explains the values of the first column.
	tableHead = regexp.MustCompile(`(?i)\| meaning \|`)
)

// TestHouse_RetiredFields finds retired JSON fields in the tags of Go types and in the OpenAPI document of the sinks.
// The document of the API is generated from the tags.
func TestHouse_RetiredFields(t *testing.T) {
	read := 0
	walk(t, func(file string, content []byte) {
		find := fieldTag
		switch {
		case records.MatchString(file) || slices.Contains(recorded, file):
			return
		case file == "docs/sinks.openapi.yaml":
			find = property
		case filepath.Ext(file) != ".go":
			return
		}
		for _, m := range find.FindAllSubmatch(content, -1) {
			read++
			if successor := retiredFields[string(m[1])]; successor != "" {
				t.Errorf("%s: the JSON field %q is retired: use %s, see Conventions in docs/api.md", file, m[1], successor)
			}
		}
	})
	if read < 500 {
		t.Errorf("read only %d fields", read)
	}
}

// TestHouse_RetiredNames finds retired metrics, alerts and reason codes in the whole repository.
func TestHouse_RetiredNames(t *testing.T) {
	walk(t, func(file string, content []byte) {
		if records.MatchString(file) || strings.HasSuffix(file, "retired_names_test.go") || filepath.Ext(file) == ".sum" {
			return
		}
		for _, name := range anyName.FindAllString(string(content), -1) {
			if successor := retiredNames[name]; successor != "" {
				t.Errorf("%s: the name %s is retired: use %s", file, name, successor)
			}
		}
	})
}

// TestHouse_RetiredWords finds retired terms in documents, pages, SQL, and in the identifiers and strings of Go. A
// comment of Go may contain the word as an ordinary noun.
func TestHouse_RetiredWords(t *testing.T) {
	patterns := map[string]*regexp.Regexp{}
	for word := range retiredWords {
		patterns[word] = wordPattern(word)
	}
	walk(t, func(file string, content []byte) {
		if records.MatchString(file) || strings.HasSuffix(file, "retired_names_test.go") || filepath.Ext(file) == ".sum" {
			return
		}
		for _, text := range publicTexts(file, content) {
			for word, pattern := range patterns {
				if pattern.MatchString(text) {
					t.Errorf("%s: %q contains the retired word %q: use %q", file, text, word, retiredWords[word])
				}
			}
		}
	})
}

func TestWordPattern(t *testing.T) {
	for text, want := range map[string]bool{
		"pawl meaning diff": true, "the meanings": true, "meaning_switches": true, "ownMeaning": true, "MeaningDiff": true, "/meaning/{id}": true,
		"meaningful": false, "rules": false,
	} {
		if wordPattern("meaning").MatchString(text) != want {
			t.Errorf("%q: got %v", text, !want)
		}
	}
}

// wordPattern matches a text with the word, its plural, or a name with the word.
func wordPattern(word string) *regexp.Regexp {
	return regexp.MustCompile(`(?i:` + word + `)s?(?:[^a-z]|$)`)
}

// publicTexts returns the lines of a file without heads of tables. Of Go code it returns the identifiers and strings.
func publicTexts(file string, content []byte) (found []string) {
	if filepath.Ext(file) != ".go" {
		for line := range strings.Lines(string(content)) {
			found = append(found, tableHead.ReplaceAllString(line, ""))
		}
		return found
	}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(file, -1, len(content)), content, nil, 0)
	for {
		switch _, kind, literal := s.Scan(); kind {
		case token.EOF:
			return found
		case token.IDENT, token.STRING:
			found = append(found, literal)
		}
	}
}
