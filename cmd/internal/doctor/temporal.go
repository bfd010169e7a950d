package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/operator/recovery"
	"github.com/pawlhq/pawl/workflows"
)

// shortRetention is the retention period below which doctor warns. People need some time to inspect or reset a run that
// has ended.
const shortRetention = 3 * 24 * time.Hour

func (d *Doctor) temporal(ctx context.Context, f *findings) error {
	namespace, err := d.Config.Temporal.Namespace()
	if err != nil {
		return err
	}
	queue := d.Config.Temporal.TaskQueue
	f.list = ExamineTemporal(ctx, d.Temporal, namespace, queue, d.Config.Dev.Enabled)
	f.lost(ctx, recovery.Runs{Temporal: d.Temporal, Namespace: namespace, TaskQueue: queue, DB: d.Pool})
	return nil
}

// lost checks whether the database contains the events of the newest runs.
func (f *findings) lost(ctx context.Context, runs recovery.Runs) {
	unknown, err := runs.Unknown(ctx)
	switch {
	case err != nil:
		f.add(Warn, "lost data", "give the client the right to list runs, so that doctor can compare them with the database",
			"cannot compare: %s", condition.TemporalSays(err))
	case len(unknown) > 0:
		f.add(Fail, "lost data", "run `pawl recover`: docs/operations/restore.md",
			"Temporal has runs of %d events that the database does not contain, such as %s", len(unknown),
			unknown[0].WorkflowID)
	default:
		f.add(OK, "lost data", "", "the database contains the events of the newest runs")
	}
}

// ExamineTemporal checks the namespace and the workers of the task queue. If dev is true, it accepts settings that are
// safe only on a developer's machine.
func ExamineTemporal(ctx context.Context, c client.Client, namespace, queue string, dev bool) []Finding {
	f := &findings{area: "temporal"}
	if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		f.add(Fail, "reachable", "check TEMPORAL_ADDRESS or temporal.config_file, and that Temporal runs. pawl stores deliveries meanwhile, and runs them when Temporal is back", "%s", condition.TemporalSays(err))
		return f.list
	}
	described, err := c.WorkflowService().DescribeNamespace(ctx,
		&workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	switch code := serviceerror.ToStatus(err).Code(); {
	case code == codes.NotFound:
		f.add(Fail, "namespace", fmt.Sprintf("create it: `temporal operator namespace create --namespace %s --retention 30d`; or correct TEMPORAL_NAMESPACE", namespace), "namespace %s does not exist", namespace)
		return f.list
	case code == codes.PermissionDenied, code == codes.Unauthenticated:
		f.add(Warn, "namespace", "check that TEMPORAL_API_KEY or the certificate belongs to this namespace",
			"no permission to describe %s: %s", namespace, condition.TemporalSays(err))
	case err != nil:
		f.add(Fail, "namespace", "read Temporal's log", "%s", condition.TemporalSays(err))
		return f.list
	default:
		f.namespace(described, dev)
	}
	f.searchAttributes(ctx, c, namespace, described)
	f.workers(ctx, c, queue)
	return f.list
}

func (f *findings) namespace(described *workflowservice.DescribeNamespaceResponse, dev bool) {
	name := described.GetNamespaceInfo().GetName()
	if state := described.GetNamespaceInfo().GetState(); state != enumspb.NAMESPACE_STATE_REGISTERED {
		f.add(Fail, "namespace", "use a registered namespace: Temporal starts no workflow in this one", "%s is %s",
			name, state)
		return
	}
	f.add(OK, "namespace", "", "%s is registered", name)
	retention := described.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	level := OK
	if retention < shortRetention && !dev {
		level = Warn
	}
	f.add(level, "retention", fmt.Sprintf("`temporal operator namespace update --namespace %s --retention 30d`: you can inspect and reset a run until its retention ends", name),
		"Temporal keeps ended runs for %s", daysText(retention))
}

// searchAttributes checks that the namespace has the search attributes of pawl's runs. If the list is forbidden, as on
// Temporal Cloud, it reads the description of the namespace instead.
func (f *findings) searchAttributes(ctx context.Context, c client.Client, namespace string,
	described *workflowservice.DescribeNamespaceResponse) {
	held := map[string]enumspb.IndexedValueType{}
	listed, err := c.OperatorService().ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	switch code := serviceerror.ToStatus(err).Code(); {
	case err == nil:
		held = listed.GetCustomAttributes()
	case code == codes.PermissionDenied || code == codes.Unimplemented:
		for _, alias := range described.GetConfig().GetCustomSearchAttributeAliases() {
			held[alias] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
		}
		if len(held) == 0 {
			f.add(Warn, "search attributes", "ask the administrator of the namespace whether it has "+
				strings.Join(attributeNames(), ", ")+": if one is missing, pawl starts no events",
				"no permission to list them")
			return
		}
	default:
		f.add(Fail, "search attributes", "read Temporal's log", "%s", condition.TemporalSays(err))
		return
	}
	var missing, other, create []string
	for _, name := range attributeNames() {
		switch kind, ok := held[name]; {
		case !ok:
			missing = append(missing, name)
			create = append(create, fmt.Sprintf("`temporal operator search-attribute create --namespace %s --name %s --type Keyword`", namespace, name))
		case kind != enumspb.INDEXED_VALUE_TYPE_KEYWORD:
			other = append(other, fmt.Sprintf("%s is %s", name, kind))
		}
	}
	switch {
	case len(missing) > 0:
		f.add(Fail, "search attributes", "start an ingress or a worker, which registers them; if it has no permission, run "+
			strings.Join(create, ", "),
			"the namespace lacks %s: pawl starts no events", strings.Join(missing, ", "))
	case len(other) > 0:
		f.add(Fail, "search attributes", "remove it and create it with the type Keyword", "%s, but must be Keyword",
			strings.Join(other, ", "))
	default:
		f.add(OK, "search attributes", "", "%s are registered", strings.Join(attributeNames(), ", "))
	}
}

func attributeNames() (names []string) {
	for _, key := range workflows.SearchAttributeKeys() {
		names = append(names, key.GetName())
	}
	return names
}

// workers checks the workers of the task queue.
func (f *findings) workers(ctx context.Context, c client.Client, queue string) {
	builds := map[string][]string{}
	for _, kind := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
		described, err := c.DescribeTaskQueue(ctx, queue, kind)
		if err != nil {
			f.add(Fail, "workers", "read Temporal's log", "%s", condition.TemporalSays(err))
			return
		}
		polling := slices.DeleteFunc(described.GetPollers(), func(p *taskqueuepb.PollerInfo) bool {
			return time.Since(p.GetLastAccessTime().AsTime()) > condition.QuietPoller
		})
		for _, p := range polling {
			builds[buildOf(p)] = append(builds[buildOf(p)], p.GetIdentity())
		}
		if len(polling) == 0 {
			f.add(Fail, "workers", "start a worker: `pawl worker`, or `pawl ingress --worker`. pawl stores events meanwhile, and runs them when a worker polls", "no worker polls the task queue %s", queue)
			return
		}
	}
	var told []string
	for _, build := range slices.Sorted(maps.Keys(builds)) {
		told = append(told, few(slices.Compact(slices.Sorted(slices.Values(builds[build]))))+build)
	}
	level := OK
	if len(builds) > 1 {
		level = Warn
	}
	f.add(level, "workers", "finish the deployment, or stop the old workers: workers of two versions poll the task queue", "%s",
		strings.Join(told, "; "))
}

// buildOf returns the version of a worker, to be shown after its identity. It returns "" if the worker reports no
// version.
func buildOf(p *taskqueuepb.PollerInfo) string {
	name, build := p.GetDeploymentOptions().GetDeploymentName(), p.GetDeploymentOptions().GetBuildId()
	if build == "" {
		build = p.GetWorkerVersionCapabilities().GetBuildId() //nolint:staticcheck // older servers report only this one
	}
	switch {
	case build == "":
		return ""
	case name != "":
		return " (" + name + " " + build + ")"
	}
	return " (build " + build + ")"
}

// daysText formats a duration in days if it is a whole number of days.
func daysText(d time.Duration) string {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}
