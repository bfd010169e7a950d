package flowtest

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawlhq/pawl/cmd/internal/doctor"
)

// The findings of doctor about Temporal, with a real server and worker.
func TestDoctor_Temporal(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	in := func(namespace string) client.Client {
		temporal, err := devTemporal()
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.NewLazyClient(client.Options{HostPort: temporal.Addr(), Namespace: namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	bare := "bare-" + uuid.NewString()
	if _, err := r.Temporal.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: bare, WorkflowExecutionRetentionPeriod: durationpb.New(30 * 24 * time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	get := func(found []doctor.Finding, check string) (f doctor.Finding) {
		if i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Check == check }); i >= 0 {
			f = found[i]
		}
		return f
	}
	queue := r.Config.Temporal.TaskQueue
	r.until("the worker polls, and all is well", func() bool {
		found := doctor.ExamineTemporal(t.Context(), r.Temporal, "default", queue, true)
		return len(found) == 4 && !slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Level != doctor.OK })
	})
	if f := get(doctor.ExamineTemporal(t.Context(), r.Temporal, "default", queue, false), "retention"); f.Level != doctor.Warn || f.Found != "Temporal keeps ended runs for 24h0m0s" {
		t.Errorf("retention: %+v, want a finding", f)
	}
	if f := get(doctor.ExamineTemporal(t.Context(), r.Temporal, "default", "nobody", true), "workers"); f.Level != doctor.Fail || !strings.Contains(f.Do, "pawl worker") {
		t.Errorf("no worker: %+v", f)
	}
	var found []doctor.Finding
	r.until("the namespace is known", func() bool {
		found = doctor.ExamineTemporal(t.Context(), in(bare), bare, queue, false)
		return get(found, "namespace").Level == doctor.OK
	})
	if f := get(found, "search attributes"); f.Level != doctor.Fail || !strings.Contains(f.Found, "PawlProvider, PawlType, PawlReceipt, PawlStatus") || !strings.Contains(f.Do, "search-attribute create --namespace "+bare+" --name PawlStatus --type Keyword") {
		t.Errorf("no search attributes: %+v", f)
	}
	if f := get(found, "retention"); f.Level != doctor.OK || f.Found != "Temporal keeps ended runs for 30 days" {
		t.Errorf("retention: %+v", f)
	}
	found = doctor.ExamineTemporal(t.Context(), in("none"), "none", queue, false)
	if f := get(found, "namespace"); len(found) != 1 || f.Level != doctor.Fail || !strings.Contains(f.Do, "namespace create --namespace none") {
		t.Errorf("no namespace: %+v", found)
	}
}
