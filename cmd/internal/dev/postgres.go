package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawlhq/pawl/schema/localpg"
	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// historyShards is the default of Temporal's Helm chart. A shard executes one write at a time, so with the server's
// own default of 4 shards the benchmark would measure the locks of the shards.
const historyShards = 512

// PostgresSettings are required for the Postgres of a Temporal server, because each of its four services has two
// connection pools: for its store and for visibility.
var PostgresSettings = map[string]string{"max_connections": "300"}

// TemporalOnPostgresOptions configure a start. All fields must be set.
type TemporalOnPostgresOptions struct {
	// Dir contains the server's settings and log; it is created if missing.
	Dir string
	// Postgres must not contain a database of Temporal yet.
	Postgres *localpg.Server
	// Progress gets reports of a long build.
	Progress io.Writer
}

// StartTemporalOnPostgres starts a complete Temporal server on a Postgres, like production but in one process, and
// returns when its namespace exists. It has no UI. After an error, nothing is left running. The server ends with this
// process.
func StartTemporalOnPostgres(ctx context.Context, opts TemporalOnPostgresOptions) (_ *Temporal, err error) {
	path, err := temporalServer.find(ctx, opts.Progress)
	if err != nil {
		return nil, err
	}
	sql, err := temporalSQL.find(ctx, opts.Progress)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Temporal, error) { return nil, fmt.Errorf("start Temporal on Postgres: %w", err) }
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	database, err := url.Parse(opts.Postgres.DSN("temporal"))
	if err != nil {
		return fail(err)
	}
	for name, schema := range map[string]string{"temporal": "postgresql/v12/temporal",
		"temporal_visibility": "postgresql/v12/visibility"} {
		if err := makeDatabase(ctx, sql, database, name, schema); err != nil {
			return fail(err)
		}
	}
	t := &Temporal{log: filepath.Join(dir, "temporal.log")}
	if err := t.runServer(ctx, path, dir, database); err != nil {
		return fail(err)
	}
	return t, nil
}

// makeDatabase creates one of Temporal's databases with its schema, which the tool contains.
func makeDatabase(ctx context.Context, sql string, database *url.URL, name, schema string) error {
	password, _ := database.User.Password()
	for _, command := range [][]string{{"create"}, {"setup-schema", "-v", "0.0"},
		{"update-schema", "--schema-name", schema}} {
		args := append([]string{
			"--plugin", "postgres12_pgx", "--ep", database.Hostname(), "-p", database.Port(), "-u",
			database.User.Username(), "--db", name,
		}, command...)
		cmd := exec.CommandContext(ctx, sql, args...)
		cmd.Env = append(os.Environ(), "SQL_PASSWORD="+password)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s of database %s: %w: %s", command[0], name, err, keeper.LastLines(out, 3))
		}
	}
	return nil
}

func (t *Temporal) runServer(ctx context.Context, path, dir string, database *url.URL) error {
	settings := filepath.Join(dir, "dynamic.yaml")
	dynamic := fmt.Sprintf("history.visibilityProcessorSchedulerWorkerCount:\n  - value: %d\n", visibilityWriters)
	if err := os.WriteFile(settings, []byte(dynamic), 0o600); err != nil {
		return err
	}
	password, _ := database.User.Password()
	env := append(temporalEnv(os.Environ()),
		"DB=postgres12_pgx", "POSTGRES_SEEDS="+database.Hostname(), "DB_PORT="+database.Port(),
		"POSTGRES_USER="+database.User.Username(), "POSTGRES_PWD="+password,
		"DBNAME=temporal", "VISIBILITY_DBNAME=temporal_visibility",
		"NUM_HISTORY_SHARDS="+strconv.Itoa(historyShards),
		"BIND_ON_IP=127.0.0.1", "DYNAMIC_CONFIG_FILE_PATH="+settings, "LOG_LEVEL=warn")
	names := []string{
		"FRONTEND_GRPC_PORT", "FRONTEND_HTTP_PORT", "FRONTEND_MEMBERSHIP_PORT", "HISTORY_GRPC_PORT",
		"HISTORY_MEMBERSHIP_PORT",
		"MATCHING_GRPC_PORT", "MATCHING_MEMBERSHIP_PORT", "WORKER_GRPC_PORT", "WORKER_MEMBERSHIP_PORT",
	}
	// low ports, because the column for them in Temporal's table cluster_membership is a smallint
	ports, err := keeper.FreePorts(len(names))
	if err != nil {
		return err
	}
	t.port = ports[0]
	env = append(env, "PUBLIC_FRONTEND_ADDRESS="+t.Addr())
	for i, name := range names {
		env = append(env, name+"="+strconv.Itoa(ports[i]))
	}
	return t.start(ctx, keeper.Command{Path: path, Args: []string{"--allow-no-auth", "start"}, Env: env}, t.registered)
}

// registered registers the namespace, which proves that the server accepts requests.
func (t *Temporal) registered(ctx context.Context) error {
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if _, exists := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); exists {
		return nil
	}
	return err
}
