package flowtest

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
)

// A namespace is deleted and created again while pawl runs. The first start fails. The dispatcher then detects the
// missing search attributes, registers them, and starts the event.
func TestDispatch_NamespaceMadeAnew_AttributesRegistered(t *testing.T) {
	t.Parallel()
	namespace := "anew-" + uuid.NewString()
	sink := template.DevParams{WorkspacesURL: "http://w.test", FinanceURL: "http://f.test", SMTP: "m.test:25", EventsURL: "http://s.test"}
	n, err := process.New(t.Context(), configure(t, sink, namespace), providers, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	if _, err := n.Temporal.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	prepared := 0
	d, err := dispatch.New(dispatch.Config{
		Temporal: n.Temporal, Receipts: n.Receipts, Runs: n.Runs, TaskQueue: "q", Workers: 1,
		Prepare: func(ctx context.Context) error { prepared++; return n.EnsureSearchAttributes(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, Node: n}
	kept := r.insert(receipt.Delivery{
		Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Header: http.Header{},
		Events: []receipt.New{{Mode: "live", EventID: "evt_1", Identity: receipt.ByID, Type: "invoice.paid", Status: receipt.Received, Body: []byte("{}")}},
	})
	r.until("the event is started", func() bool {
		r.exec(`update receipts set dispatch_at = now()`)
		_, _, failure := d.SweepOnce(t.Context())
		found, err := n.Receipts.Get(t.Context(), kept[0].ReceiptID)
		if err != nil || found.Status == receipt.NeedsReview {
			t.Fatalf("receipt %+v, %v, after %v", found, err, failure)
		}
		return found.Status == receipt.Processing
	})
	if prepared == 0 {
		t.Error("it was started without its search attributes being registered")
	}
}
