package e2e_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// front is a proxy before Temporal that can reject the polls of workers, as Temporal does if it no longer accepts a
// worker's certificate.
type front struct {
	addr string
	to   *grpc.ClientConn
	mu   sync.Mutex
	// shut is the error for polls, or nil to accept them. Closing open ends the waiting polls.
	shut error
	open context.Context
	end  context.CancelFunc
}

func newFront(t *testing.T, temporal string) *front {
	t.Helper()
	f := &front{}
	f.let(nil)
	var err error
	if f.to, err = grpc.NewClient(temporal, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	server := grpc.NewServer(grpc.ForceServerCodecV2(asItIs{}), grpc.UnknownServiceHandler(f.pass))
	go func() { _ = server.Serve(l) }() // serves until the server is stopped
	t.Cleanup(func() {
		f.let(nil)
		server.Stop()
		_ = f.to.Close()
	})
	return f
}

// let sets the error for polls, or nil to accept them. It ends the waiting polls.
func (f *front) let(refuse error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != nil {
		f.end()
	}
	f.open, f.end = context.WithCancel(context.Background())
	f.shut = refuse
}

func (f *front) refusePolls() {
	f.let(status.Error(codes.PermissionDenied, "the worker's certificate is not taken any more"))
}

// pass forwards a call. All RPCs of Temporal are unary, so one handler can forward them.
func (f *front) pass(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	if strings.Contains(method, "/Poll") {
		f.mu.Lock()
		open, shut := f.open, f.shut
		f.mu.Unlock()
		if shut != nil {
			return shut
		}
		defer context.AfterFunc(open, cancel)()
	}
	var request, answer mem.BufferSlice
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	if sent, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, sent)
	}
	if err := f.to.Invoke(ctx, method, &request, &answer, grpc.ForceCodecV2(asItIs{})); err != nil {
		return err
	}
	return stream.SendMsg(&answer)
}

// asItIs is the codec of messages that are forwarded unchanged.
type asItIs struct{}

func (asItIs) Marshal(v any) (mem.BufferSlice, error) { return *v.(*mem.BufferSlice), nil }

func (asItIs) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*mem.BufferSlice) = mem.BufferSlice{mem.SliceBuffer(data.Materialize())}
	return nil
}

func (asItIs) Name() string { return "proto" }
