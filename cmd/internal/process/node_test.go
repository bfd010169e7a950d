package process

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/schema/schematest"
)

// closedTemporal simulates a Temporal with an operator service that returns err.
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

// If an administrator has registered the search attributes, pawl may lack the permission to check them.
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
			n := &Node{Config: &config.Config{}, log: slog.New(slog.DiscardHandler), Temporal: closedTemporal{err: c.err}}
			if err := n.EnsureSearchAttributes(t.Context()); (err == nil) != c.goesOn {
				t.Errorf("got %v; want it to continue: %t", err, c.goesOn)
			}
		})
	}
}

// During a rolling deployment, the old version may restart with the newer database schema. The warning is needed for
// a rollback, because some migrations require that older versions are stopped.
func TestCheckSchema_NewerDatabase_WarnsAndGoesOn(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	var log bytes.Buffer
	n := &Node{Config: &config.Config{}, Pool: pool, log: slog.New(slog.NewTextHandler(&log, nil)), Receipts: receipt.NewStore(pool, receipt.Options{}), Runs: run.NewStore(pool, receipt.Options{})}
	t.Cleanup(n.Receipts.Close)
	for _, newer := range []bool{false, true} {
		if newer {
			if _, err := pool.Exec(t.Context(), `update schema_version set version = version + 1`); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.CheckSchema(t.Context()); err != nil || !n.fits.Load() {
			t.Errorf("newer %t: CheckSchema() = %v, fits %t; want it to continue", newer, err, n.fits.Load())
		}
		if got := strings.Contains(log.String(), "a newer version of pawl has migrated"); got != newer {
			t.Errorf("newer %t: the log is %q", newer, log.String())
		}
	}
}

// If the database was down at the start, its schema is checked when the database is available.
func TestAwaitSchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string
		fits   bool
	}{
		"migrated":     {"select 1", true},
		"not migrated": {"drop schema public cascade; create schema public", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := open(t, schematest.NewDSN(t), nil)
			if _, err := n.Pool.Exec(t.Context(), c.before); err != nil {
				t.Fatal(err)
			}
			if err := n.ready(); err == nil {
				t.Error("ready before the schema was seen")
			}
			err := n.awaitSchema(t.Context())
			if (err == nil) != c.fits || (n.ready() == nil) != c.fits {
				t.Errorf("got %v, ready %v; want it to fit: %t", err, n.ready(), c.fits)
			}
		})
	}
}
