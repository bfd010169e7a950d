package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// closedTemporal is a Temporal whose operator service answers with err.
type closedTemporal struct {
	client.Client
	operatorservice.OperatorServiceClient
	err error
}

func (c closedTemporal) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return &client.CheckHealthResponse{}, nil
}

func (c closedTemporal) OperatorService() operatorservice.OperatorServiceClient { return c }

func (c closedTemporal) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{}, c.err
}

func (c closedTemporal) AddSearchAttributes(context.Context, *operatorservice.AddSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.AddSearchAttributesResponse, error) {
	return nil, serviceerror.NewPermissionDenied("not for you", "")
}

// Where an administrator registers search attributes, pawl may not be let in to see whether that was done.
func TestEnsureSearchAttributes_NotLetIn_GoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		goesOn bool
	}{
		"may not see them":     {serviceerror.NewPermissionDenied("not for you", ""), true},
		"none to ask":          {serviceerror.NewUnimplemented("unknown service"), true},
		"sees that none is":    {nil, false},
		"Temporal is not well": {serviceerror.NewUnavailable("no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &node{cfg: &config.Config{}, log: slog.New(slog.DiscardHandler), temporal: closedTemporal{err: c.err}}
			if err := n.ensureSearchAttributes(t.Context()); (err == nil) != c.goesOn {
				t.Errorf("got %v; want it to go on: %t", err, c.goesOn)
			}
		})
	}
}

// A namespace that was made anew while pawl runs: by what Temporal itself says of a start, the dispatcher knows that the
// search attributes are missing, registers them, and starts the event when they are known.
func TestDispatch_NamespaceMadeAnew_AttributesRegistered(t *testing.T) {
	t.Parallel()
	temporal, err := devTemporal()
	if err != nil {
		t.Fatal(err)
	}
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	cfg, err := config.Load(s.file, s.variable, providers())
	if err != nil {
		t.Fatal(err)
	}
	namespace := "anew-" + uuid.NewString()
	cfg.Temporal.ConfigFile = filepath.Join(t.TempDir(), "temporal.toml")
	write(t, cfg.Temporal.ConfigFile, fmt.Sprintf("[profile.default]\naddress = %q\nnamespace = %q\n", temporal.Addr(), namespace))
	n, err := newNode(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	if _, err := n.temporal.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	prepared := 0
	d, err := dispatch.New(dispatch.Config{
		Temporal: n.temporal, Receipts: n.receipts, TaskQueue: "q", Workers: 1,
		Prepare: func(ctx context.Context) error { prepared++; return n.ensureSearchAttributes(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := n.receipts.Insert(t.Context(), receipt.Delivery{
		Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Header: http.Header{},
		Events: []receipt.New{{Mode: "live", EventID: "evt_1", IDOrigin: "body", Type: "invoice.paid", Status: receipt.Received, Body: []byte("{}")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, dsn)
	until(t, "the event is started", func() bool {
		if _, err := conn.Exec(t.Context(), `update receipts set dispatch_at = now()`); err != nil {
			t.Fatal(err)
		}
		_, _, failure := d.SweepOnce(t.Context())
		r, err := n.receipts.Get(t.Context(), kept[0].ReceiptID)
		if err != nil || r.Status == receipt.NeedsReview {
			t.Fatalf("receipt %+v, %v, after %v", r, err, failure)
		}
		return r.Status == receipt.Processing
	})
	if prepared == 0 {
		t.Error("it was started without its search attributes being registered")
	}
}
