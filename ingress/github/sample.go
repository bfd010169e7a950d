package github

import (
	_ "embed"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is an issue that was opened.
var sample = webhook.Sample{
	Type:    "issues.opened",
	EventID: webhook.RandomUUID,
	Funcs:   map[string]any{"objects": objects},
	Body:    sampleBody,
}

// sampleObjects names the objects in the body of an event, where it is not one that is called as the event.
var sampleObjects = map[string][]string{
	"issues":                      {"issue"},
	"issue_comment":               {"issue", "comment"},
	"commit_comment":              {"comment"},
	"discussion_comment":          {"discussion", "comment"},
	"pull_request_review":         {"pull_request", "review"},
	"pull_request_review_comment": {"pull_request", "comment"},
	"pull_request_review_thread":  {"pull_request", "thread"},
	"fork":                        {"forkee"},
	"installation_repositories":   {"installation"},
}

// objects names those of an event.
func objects(event string) []string {
	if names, ok := sampleObjects[event]; ok {
		return names
	}
	return []string{event}
}
