package health_test

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/health"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// The check at process start and the doctor both report a setting that is disabled for a connection.
func TestDurability_SettingOff_Named(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), schematest.NewDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for setting, off := range map[string]bool{"off": true, "on": false} {
		if _, err := conn.Exec(t.Context(), `set synchronous_commit = `+setting); err != nil {
			t.Fatal(err)
		}
		err := health.CheckDurability(t.Context(), conn)
		if named := err != nil && strings.Contains(err.Error(), "synchronous_commit = off"); named != off {
			t.Errorf("synchronous_commit is %s, and the check returns %v", setting, err)
		}
		server, err := health.Read(t.Context(), conn)
		if err != nil || slices.Contains(server.Off, "synchronous_commit") != off {
			t.Errorf("synchronous_commit is %s, and off are %v, %v", setting, server.Off, err)
		}
	}
}

// The role that migrates owns the tables, so it lacks no privilege; a role without grants lacks all privileges.
func TestRead(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	other, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	if _, err := other.Exec(t.Context(), `begin; select 1`); err != nil {
		t.Fatal(err)
	}
	server, err := health.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	if server.Version == "" || server.Role == "" || !server.Owner || server.ReadOnly || server.Size == 0 || server.Connections < 2 || server.Most < 10 {
		t.Errorf("server %+v", server)
	}
	if server.Oldest <= 0 || server.OldestBy == "" {
		t.Errorf("oldest transaction %s by %q, want one", server.Oldest, server.OldestBy)
	}
	if off := time.Since(server.Now).Abs(); off > time.Minute {
		t.Errorf("its clock is off by %s", off)
	}
	if lacks, err := schema.LacksAsWorker(t.Context(), conn); err != nil || len(lacks) > 0 {
		t.Errorf("the owner lacks %v, %v", lacks, err)
	}
	role := "nobody_" + strings.ToLower(rand.Text()[:6])
	t.Cleanup(func() {
		if conn, err := pgx.Connect(context.Background(), dsn); err == nil {
			_, _ = conn.Exec(context.Background(), `drop role `+role)
			_ = conn.Close(context.Background())
		}
	})
	for _, sql := range []string{`create role ` + role, `set role ` + role} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	lacks, err := schema.LacksAsWorker(t.Context(), conn)
	if err != nil || !slices.Contains(lacks, "insert on receipts") || !slices.Contains(lacks, "select on schema_version") || slices.Contains(lacks, "update on operator_actions") {
		t.Errorf("no role lacks %v, %v", lacks, err)
	}
}
