package bench

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// engine stands in for a Temporal that takes so many starts a second and does nothing with them: what is measured is
// the dispatcher, and a real server would be the slower part. It takes each start after startTakes at least, lists what
// it took as running, and can be away.
type engine struct {
	workflowservice.UnimplementedWorkflowServiceServer

	addr  string
	takes *rate.Limiter
	calls atomic.Int64

	mu     sync.Mutex
	server *grpc.Server
	runs   []*workflowpb.WorkflowExecutionInfo
	taken  map[string]string
}

// startTakes is the least that a start takes.
const startTakes = 2 * time.Millisecond

// newEngine returns an engine that takes perSecond starts. It is away until it is begun.
func newEngine(perSecond int) (*engine, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	return &engine{addr: addrs[0], takes: rate.NewLimiter(rate.Limit(perSecond), max(1, perSecond/100)), taken: map[string]string{}}, nil
}

// begin has it answer.
func (e *engine) begin(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.addr)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server = grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		out, err := handle(ctx, in)
		return out, serviceerror.ToStatus(err).Err() // as a Temporal server tells its errors
	}))
	workflowservice.RegisterWorkflowServiceServer(e.server, e)
	well := health.NewServer()
	well.SetServingStatus("temporal.api.workflowservice.v1.WorkflowService", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(e.server, well)
	go func() { _ = e.server.Serve(listener) }() // it ends when it is stopped
	return nil
}

// end has it be away, at once. What it took stays taken.
func (e *engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		e.server.Stop()
		e.server = nil
	}
}

// count is how many starts were asked for, and how many runs there are.
func (e *engine) count() (calls, runs int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(e.calls.Load()), len(e.runs)
}

// StartWorkflowExecution takes a start, or says that its workflow ID was taken before.
func (e *engine) StartWorkflowExecution(ctx context.Context, in *workflowservice.StartWorkflowExecutionRequest) (*workflowservice.StartWorkflowExecutionResponse, error) {
	e.calls.Add(1)
	begin := time.Now()
	if err := e.takes.Wait(ctx); err != nil {
		return nil, serviceerror.NewDeadlineExceeded(err.Error())
	}
	select {
	case <-time.After(startTakes - time.Since(begin)):
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if runID, taken := e.taken[in.GetWorkflowId()]; taken {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("it runs", in.GetRequestId(), runID)
	}
	runID := uuid.NewString()
	e.taken[in.GetWorkflowId()] = runID
	e.runs = append(e.runs, &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: in.GetWorkflowId(), RunId: runID},
		Status:    enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, StartTime: timestamppb.Now(), SearchAttributes: in.GetSearchAttributes(),
	})
	return &workflowservice.StartWorkflowExecutionResponse{RunId: runID, Started: true}, nil
}

// ListWorkflowExecutions lists everything that was taken, as running, whatever the query.
func (e *engine) ListWorkflowExecutions(_ context.Context, in *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	from := 0
	if token := string(in.GetNextPageToken()); token != "" {
		var err error
		if from, err = strconv.Atoi(token); err != nil {
			return nil, serviceerror.NewInvalidArgument("page token")
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	to := min(from+int(in.GetPageSize()), len(e.runs))
	page := &workflowservice.ListWorkflowExecutionsResponse{Executions: e.runs[min(from, to):to]}
	if to < len(e.runs) {
		page.NextPageToken = []byte(strconv.Itoa(to))
	}
	return page, nil
}

// DescribeWorkflowExecution tells that a run that was taken goes on.
func (e *engine) DescribeWorkflowExecution(_ context.Context, in *workflowservice.DescribeWorkflowExecutionRequest) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	runID, taken := e.taken[in.GetExecution().GetWorkflowId()]
	if !taken {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	for _, run := range e.runs {
		if run.GetExecution().GetRunId() == runID {
			return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: run}, nil
		}
	}
	return nil, errors.New("a run that was taken is not there")
}
