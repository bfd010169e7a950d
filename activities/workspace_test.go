package activities_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/schematest"
)

// targets contains the newest targets, by mode and account.
type targets map[string]fold.Target

func (t targets) Target(_ context.Context, mode, account string) (fold.Target, error) {
	return t[mode+":"+account], nil
}

func (b *bundle) workspaces(url string, newest targets) *activities.Workspaces {
	return &activities.Workspaces{Effects: b.effects, Targets: newest, Sinks: map[string]activities.Sink{"live": sink(url), "test": sink(url + "/staging")}}
}

// target returns the effect that provisions acme's workspace with the given version of its target.
func target(version int64, plan string) activities.EffectInput[activities.Workspace] {
	in := activities.EffectInput[activities.Workspace]{Effect: call("provision-workspace", fmt.Sprintf("acme:v%d", version)), For: activities.Workspace{
		Account: "acme", Mode: "live", Plan: plan, Quantity: 3, Features: []string{"api", "projects"}, State: fold.WorkspaceActive, Version: version,
	}}
	if plan == "" {
		in.For.State, in.For.Quantity, in.For.Features = fold.WorkspaceReleased, 0, nil
	}
	return in
}

func TestProvisionWorkspace_WhatIsSent(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	w := b.workspaces(s.URL, targets{})
	must(b, effect.Done, w.ProvisionWorkspace, target(1, "pro"))
	must(b, effect.AlreadyDone, w.ProvisionWorkspace, target(1, "pro"))
	if got := b.lines(`select plan || ' ' || state from workspaces`); fmt.Sprint(got) != "[pro active]" {
		t.Errorf("workspace %v", got)
	}
	must(b, effect.Done, w.ProvisionWorkspace, target(2, ""))
	if got := b.lines(`select plan || ' ' || state from workspaces`); fmt.Sprint(got) != "[ released]" {
		t.Errorf("workspace %v", got)
	}
	test := target(1, "pro")
	test.For.Mode, test.Effect.Ref, test.Effect.Key = "test", schematest.Ref("test_1"), "provision-workspace:stripe:test:acme:v1"
	must(b, effect.Done, w.ProvisionWorkspace, test)
	var sent []string
	for _, r := range s.Applied() {
		sent = append(sent, fmt.Sprint(r.Method, " ", r.Path, " ", r.Key, " ", r.Pawl, " ", r.Body))
	}
	want := []string{
		`PUT /workspaces/acme provision-workspace:stripe:live:acme:v1 map[Pawl-Mode:live Pawl-Target-Version:1] {"account":"acme","mode":"live","plan":"pro","quantity":3,"features":["api","projects"],"state":"active","version":1}`,
		`PUT /workspaces/acme provision-workspace:stripe:live:acme:v2 map[Pawl-Mode:live Pawl-Target-Version:2] {"account":"acme","mode":"live","plan":"","quantity":0,"features":[],"state":"released","version":2}`,
		`PUT /staging/workspaces/acme provision-workspace:stripe:test:acme:v1 map[Pawl-Mode:test Pawl-Target-Version:1] {"account":"acme","mode":"test","plan":"pro","quantity":3,"features":["api","projects"],"state":"active","version":1}`,
	}
	if !slices.Equal(sent, want) {
		t.Errorf("sent\n got %q\nwant %q", sent, want)
	}
}

func TestProvisionWorkspace_AccountInPath_Escaped(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	in := target(1, "pro")
	in.For.Account = "../entries?x=1#"
	must(b, effect.Done, b.workspaces(s.URL, targets{}).ProvisionWorkspace, in)
	if got := s.Requests()[0].Path; got != "/workspaces/../entries?x=1#" {
		t.Errorf("path %q", got)
	}
}

// pawl does not send an older target, on the first attempt or on a retry. An unanswered attempt with an older target
// is reported, because the sink may apply it late.
func TestProvisionWorkspace_NewerTarget_Skipped(t *testing.T) {
	b := setup(t)
	stale := b.stale()
	s := activitiestest.NewSink(t)
	newest := targets{"live:acme": {Version: 8}, "test:acme": {Version: 9}, "live:umbrella": {Version: 9}}
	w := b.workspaces(s.URL, newest)
	if got := must(b, effect.Skipped, w.ProvisionWorkspace, target(7, "pro")); got.Reason != "superseded by version 8" || got.Unanswered {
		t.Errorf("result %+v", got)
	}
	if len(s.Requests()) != 0 {
		t.Error("it was sent")
	}
	s.Next(activitiestest.Cue{Hang: true})
	_, err := do(b, w.ProvisionWorkspace, target(8, "pro"))
	wantAgain(t, err)
	newest["live:acme"] = fold.Target{Version: 9}
	if got := must(b, effect.Skipped, w.ProvisionWorkspace, target(8, "pro")); got.Reason != "superseded by version 9" || !got.Unanswered {
		t.Errorf("result %+v", got)
	}
	must(b, effect.Done, w.ProvisionWorkspace, target(9, "starter"))
	if got := s.Applied(); len(got) != 1 || !strings.Contains(got[0].Body, `"version":9`) {
		t.Errorf("applied %+v", got)
	}
	if got := stale(); !maps.Equal(got, map[string]int64{"provision-workspace": 2}) {
		t.Errorf("counted %v as stale, want two", got)
	}
}

// If a workspace may receive an older target late, pawl sends the newest target once more.
func TestAlignWorkspace_NewestTarget(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	newest := targets{"live:acme": {Version: 8, State: fold.WorkspaceActive, Plan: "pro", Quantity: 2, Features: []string{"api"}}}
	w := b.workspaces(s.URL, newest)
	align := func(key string) activities.EffectInput[activities.WorkspaceRef] {
		return activities.EffectInput[activities.WorkspaceRef]{Effect: call("align-workspace", key), For: activities.WorkspaceRef{Mode: "live", Account: "acme"}}
	}
	must(b, effect.Done, w.AlignWorkspace, align("acme:v7"))
	if got := s.Applied(); len(got) != 1 || got[0].Body != `{"account":"acme","mode":"live","plan":"pro","quantity":2,"features":["api"],"state":"active","version":8}` {
		t.Errorf("applied %+v", got)
	}
	// Each attempt sends the bytes of the first attempt. If these bytes are out of date, no attempt is made.
	s.Next(activitiestest.Cue{Status: 503})
	_, err := do(b, w.AlignWorkspace, align("acme:v8"))
	wantAgain(t, err)
	newest["live:acme"] = fold.Target{Version: 9, State: fold.WorkspaceSuspended}
	must(b, effect.Skipped, w.AlignWorkspace, align("acme:v8"))
	if got := s.Applied(); len(got) != 1 {
		t.Errorf("applied %+v", got)
	}
}

// Requests for two targets of one account never overlap, so neither overtakes the other.
func TestProvisionWorkspace_OneAccount_OneAtATime(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	held := make(chan struct{})
	s.Next(activitiestest.Cue{Until: held})
	w := b.workspaces(s.URL, targets{})
	patient := sink(s.URL)
	patient.Policy.Timeout = 20 * time.Second
	w.Sinks["live"] = patient
	var group sync.WaitGroup
	group.Go(func() { must(b, effect.Done, w.ProvisionWorkspace, target(1, "pro")) })
	b.until(func() bool { return len(b.lines(`select key from effects where state = 'claimed'`)) == 1 })
	_, err := do(b, w.ProvisionWorkspace, target(2, "starter"))
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != effect.TypeNotYet {
		t.Errorf("error %v, want the second to wait for the first", err)
	}
	close(held)
	group.Wait()
	must(b, effect.Done, w.ProvisionWorkspace, target(2, "starter"))
	if got := s.Applied(); len(got) != 2 || !strings.Contains(got[1].Body, "starter") {
		t.Errorf("applied %+v", got)
	}
}
