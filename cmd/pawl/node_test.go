package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
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
	namespace := "anew-" + uuid.NewString()
	n := s.node(t, func(cfg *config.Config) {
		cfg.Temporal.ConfigFile = filepath.Join(t.TempDir(), "temporal.toml")
		write(t, cfg.Temporal.ConfigFile, fmt.Sprintf("[profile.default]\naddress = %q\nnamespace = %q\n", temporal.Addr(), namespace))
	})
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
		Events: []receipt.New{{Mode: "live", EventID: "evt_1", Identity: receipt.ByID, Type: "invoice.paid", Status: receipt.Received, Body: []byte("{}")}},
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

// While pawl is replaced, the version before may be started anew beside the newer one's database. Who went back on
// purpose has to hear of it: some migrations ask to stop what is older.
func TestCheckSchema_NewerDatabase_WarnsAndGoesOn(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	var log bytes.Buffer
	n := &node{pool: pool, log: slog.New(slog.NewTextHandler(&log, nil)), receipts: receipt.NewStore(pool, receipt.Options{})}
	t.Cleanup(n.receipts.Close)
	for _, newer := range []bool{false, true} {
		if newer {
			if _, err := pool.Exec(t.Context(), `update schema_version set version = version + 1`); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.checkSchema(t.Context()); err != nil || !n.fits.Load() {
			t.Errorf("newer %t: checkSchema() = %v, fits %t; want it to go on", newer, err, n.fits.Load())
		}
		if got := strings.Contains(log.String(), "migrated by a newer pawl"); got != newer {
			t.Errorf("newer %t: the log is %q", newer, log.String())
		}
	}
}
