package config

import (
	"cmp"
	"strings"
)

// RetiredKey is a key that the file no longer has.
type RetiredKey struct {
	// Old and New are the paths of the old and the new key. NAME is a placeholder for a name that you choose.
	Old, New string
	// Fix is the correction. If it is empty, the value stays the same.
	Fix string
}

// Retired lists the retired keys. A file with one of them is rejected with the name of the new key.
var Retired = []RetiredKey{
	{Old: "dev", New: "dev.enabled", Fix: "write dev: {enabled: true}"},
	{Old: "day", New: "dev.day"},
	{Old: "mail", New: "email",
		Fix: "rename it; settle is now delay, and letters: {NAME: off} is disabled: [NAME]"},
	{Old: "tracing.one_in", New: "tracing.sample_ratio",
		Fix: "write the share of traced deliveries: 0.01 instead of 100"},
	{Old: "sinks.NAME.retries.first", New: "sinks.NAME.retries.initial_interval"},
	{Old: "sinks.NAME.retries.max", New: "sinks.NAME.retries.max_interval"},
	{Old: "sinks.NAME.retries.for", New: "sinks.NAME.retries.max_elapsed"},
	{Old: "policy.apart", New: "policy.dunning_min_interval"},
	{Old: "policy.settle", New: "policy.subscription_wait"},
	{Old: "policy.keep", New: "policy.workspace_retention"},
	{Old: "policy.notice", New: "policy.access_ending_notice"},
	{Old: "policy.renewal", New: "policy.renewal_grace"},
	{Old: "policy.end", New: "policy.on_subscription_end"},
	{Old: "policy.unknown", New: "policy.on_unknown_price",
		Fix: "write open_task instead of ask, and ignore instead of leave"},
	{Old: "policy.grace", New: "policy.past_due_grace"},
	{Old: "policy.cancel", New: "policy.on_workflow_cancel"},
	{Old: "policy.account", New: "policy.account_from"},
	{Old: "policy.letters", New: "policy.emails"},
	{Old: "policy.gaps", New: "policy.backfill", Fix: "write auto instead of file"},
	{Old: "sinks.NAME.places", New: "sinks.NAME.max_concurrency"},
	{Old: "sinks.NAME.rate", New: "sinks.NAME.rate_limit"},
	{Old: "sinks.NAME.effects", New: "sinks.NAME.execution"},
	{Old: "notify.sinks.NAME.retries.first", New: "notify.sinks.NAME.retries.initial_interval"},
	{Old: "notify.sinks.NAME.retries.max", New: "notify.sinks.NAME.retries.max_interval"},
	{Old: "notify.sinks.NAME.retries.for", New: "notify.sinks.NAME.retries.max_elapsed"},
	{Old: "consumers", New: "destinations",
		Fix: "rename it, and write sources: [SOURCE] in each destination instead of relay in the source"},
	{Old: "sources.NAME.relay", New: "destinations",
		Fix: "write sources: [SOURCE] in each destination that receives the events of the source"},
	{Old: "sinks.subscribers", New: "destinations",
		Fix: `write NAME: {url, token, events} for each; events are the former types, and ["*"] selects all`},
	{Old: "sources.NAME.api_rate", New: "sources.NAME.api_rate_limit"},
}

// retired returns the problem and the fix of a retired key.
func retired(key string) (problem, fix string, found bool) {
	for _, r := range Retired {
		if name, ok := match(r.Old, key); ok {
			return "is now " + strings.ReplaceAll(r.New, "NAME", name), cmp.Or(r.Fix, "rename it"), true
		}
	}
	return "", "", false
}

// match reports whether key has the form of pattern, and returns the part in place of NAME.
func match(pattern, key string) (name string, ok bool) {
	before, after, named := strings.Cut(pattern, "NAME")
	if !named {
		return "", pattern == key
	}
	rest, begins := strings.CutPrefix(key, before)
	name, ends := strings.CutSuffix(rest, after)
	return name, begins && ends && name != ""
}
