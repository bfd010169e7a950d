package main

import (
	"context"
	"log/slog"
	"testing"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/pawlhq/pawl/cmd/internal/config"
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
