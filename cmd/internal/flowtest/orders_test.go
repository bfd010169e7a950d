package flowtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.temporal.io/sdk/worker"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/docs/examples/orders"
	"github.com/pawlhq/pawl/schema/receipt"
)

// The workflows of docs/examples run with the example of docs/flows.md: an order is shipped, and an order without lines is
// refused. The worker in TypeScript needs packages, which no test installs: copy docs/examples/orders-typescript, run npm
// install there, and set PAWL_TYPESCRIPT to this directory.
func TestConfiguredFlow_WorkflowExamples(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(t *testing.T, r *rig, queue string){
		"go": func(t *testing.T, r *rig, queue string) {
			w := worker.New(r.Temporal, queue, worker.Options{})
			orders.Register(w)
			check(t, w.Start())
			t.Cleanup(w.Stop)
		},
		"typescript": func(t *testing.T, _ *rig, queue string) {
			dir := os.Getenv("PAWL_TYPESCRIPT")
			if dir == "" {
				t.Skip("PAWL_TYPESCRIPT is not set")
			}
			server, err := devTemporal()
			check(t, err)
			node := exec.CommandContext(t.Context(), "node", "-r", "ts-node/register/transpile-only", "worker.ts")
			node.Dir, node.Stderr = dir, os.Stderr
			node.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+server.Addr(), "TASK_QUEUE="+queue)
			check(t, node.Start())
			t.Cleanup(func() { _ = node.Wait() }) // the test's context has ended the process
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue, order := "orders-"+branchSeed(name), branchSeed("order-"+name)
			text := strings.NewReplacer("task_queue: orders", "task_queue: "+queue, `key: "string(event.id)"`, "key: event.name").Replace(examples(t)[exampleWorkflow])
			r := newRig(t, func(c *config.Config) { flowing(t, c, text, newStores(t, nil)) })
			work(t, r, queue)
			body := `{"name": %q, "customer": {"id": 7}, "line_items": [%s]}`
			e, _ := r.paid("shop", "shopify", "orders/paid", branchSeed(name), fmt.Sprintf(body, order, `{"sku": "mug", "quantity": 2}`))
			r.status(e, receipt.Processed)
			want := "shipment of flow-workflow:shopify:live:orders:fulfil:" + order
			if got := r.rows(`select concat_ws('|', result->'output'->'values'->>'shipment', result->'workflow'->'result'->>'shipment') from effects`); len(got) != 1 || got[0] != want+"|"+want {
				t.Errorf("the ledger has %q, want %q twice", got, want)
			}
			e, workflowID := r.paid("shop", "shopify", "orders/paid", branchSeed(name+"-empty"), fmt.Sprintf(body, order+"-empty", ""))
			r.status(e, receipt.Compensated)
			if result := r.result(workflowID, ""); !strings.Contains(result.Reason, "workflow OrderPaid refused with OutOfStock") {
				t.Errorf("result %+v", result)
			}
		})
	}
}
