package github

import (
	"slices"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// shape describes the body of one kind of event: the paths of the object's ID and time, a key that the body always has,
// and keys that it never has.
//
// X-GitHub-Event is not signed, so an attacker could replay a captured issue comment as "issues". The shape detects
// only obvious cases.
type shape struct {
	id, at  string
	has     string
	without []string
}

// shapes holds the shapes of events that have another name than their object. Source: the examples of
// @octokit/webhooks-examples 7.6.1.
var shapes = map[string]shape{
	"push":               {id: "after", at: "head_commit.timestamp", has: "ref"},
	"ping":               {id: "hook_id", has: "zen"},
	"issues":             object("issue", "comment"),
	"issue_comment":      {id: "comment.id", at: "comment.updated_at", has: "issue"},
	"commit_comment":     object("comment", "issue", "pull_request"),
	"discussion_comment": {id: "comment.id", at: "comment.updated_at", has: "discussion"},
	"discussion":         object("discussion", "comment"),
	"pull_request":       object("pull_request", "comment", "review", "thread"),
	"pull_request_review": {id: "review.id", at: "review.submitted_at", has: "review",
		without: []string{"comment", "thread"}},
	"pull_request_review_comment": {id: "comment.id", at: "comment.updated_at", has: "pull_request",
		without: []string{"review", "issue"}},
	"pull_request_review_thread": {id: "thread.node_id", has: "thread"},
	"deployment":                 object("deployment", "deployment_status"),
	"check_suite":                object("check_suite", "check_run"),
	"fork":                       {id: "forkee.id", at: "forkee.created_at", has: "forkee"},
	"installation": {id: "installation.id", at: "installation.updated_at", has: "installation",
		without: []string{"repository", "repositories_added", "repositories_removed"}},
	"installation_repositories": {id: "installation.id", at: "installation.updated_at", has: "repositories_added"},
	"marketplace_purchase": {id: "marketplace_purchase.account.id", at: "effective_date",
		has: "marketplace_purchase"},
	"security_advisory": {id: "security_advisory.ghsa_id", at: "security_advisory.updated_at",
		has: "security_advisory"},
	"sponsorship":       {id: "sponsorship.node_id", at: "sponsorship.created_at", has: "sponsorship"},
	"release":           {id: "release.id", at: "release.published_at", has: "release"},
	"check_run":         {id: "check_run.id", at: "check_run.completed_at", has: "check_run"},
	"deployment_status": object("deployment_status"),
	"workflow_job":      {id: "workflow_job.id", at: "workflow_job.completed_at", has: "workflow_job"},
	"member":            {id: "member.id", has: "member"},
	"label":             {id: "label.id", has: "label", without: []string{"issue", "pull_request"}},
	"milestone":         object("milestone", "issue", "pull_request"),
	"status":            {id: "id", at: "updated_at", has: "state"},
	"create":            {id: "ref", has: "ref_type"},
	"delete":            {id: "ref", has: "ref_type"},
}

func object(key string, without ...string) shape {
	return shape{id: key + ".id", at: key + ".updated_at", has: key, without: without}
}

// shapeOf returns the shape of an event. An unlisted event may have any body, because GitHub adds events.
func shapeOf(name string) shape {
	if s, ok := shapes[name]; ok {
		return s
	}
	return shape{id: name + ".id", at: name + ".updated_at"}
}

func (s shape) fits(e *webhook.Envelope) bool {
	if s.has == "" {
		return true
	}
	_, there := e.Raw(s.has)
	return there && !slices.ContainsFunc(s.without, e.Has)
}

// sampleObjects maps an event to the names of the objects in its body, if these names differ from the name of the
// event.
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

// objects returns the names of the objects in the body of an event.
func objects(event string) []string {
	if names, ok := sampleObjects[event]; ok {
		return names
	}
	return []string{event}
}
