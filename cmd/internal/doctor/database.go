package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/health"
	"github.com/pawlhq/pawl/schema/retention"
)

// longTransaction is the age at which a transaction is reported. Until it ends, vacuum cannot remove rows that were
// deleted since its start. It may also hold locks.
const longTransaction = 5 * time.Minute

// roomConns is the number of connections that one more process of each kind and one command need. A rolling deployment
// needs this number of free connections.
const roomConns = process.IngressConns + process.WorkerConns + process.ConsoleConns + process.CommandConns

// database examines the database. With the setting dev, it accepts settings that are safe only on a developer's
// machine.
func (d *Doctor) database(ctx context.Context, f *findings) error {
	conn, err := d.Pool.Acquire(ctx)
	if err != nil {
		f.add(Fail, "reachable", "check the DSN of `database`, and that the server runs and accepts connections from this host", "%s%s",
			output.FirstLine(err), schema.PoolerAdvice(err))
		return nil
	}
	defer conn.Release()
	version, err := schema.Version(ctx, conn)
	if err != nil {
		f.add(Fail, "reachable", "check that the role may read the schema public", "%s", output.FirstLine(err))
		return nil
	}
	server, err := health.Read(ctx, conn)
	if err != nil {
		f.add(Fail, "reachable", "read the log of the database server", "%s", output.FirstLine(err))
		return nil
	}
	f.add(OK, "reachable", "", "PostgreSQL %s", server.Version)
	f.migrations(version)
	f.role(ctx, conn, server, version, d.Config.Dev.Enabled)
	if err := schema.CheckSession(ctx, conn.Conn()); err != nil {
		f.add(Warn, "session", "change the settings as described", "%s", output.FirstLine(err))
	} else {
		f.add(OK, "session", "", "all timeouts are set")
	}
	f.durability(server)
	f.add(OK, "size", "", "%s, including %s of payloads", output.Bytes(server.Size), output.Bytes(server.Bodies))
	if version == schema.Latest() {
		f.growth(retention.ReadState(ctx, conn, int64(d.Config.Retention.Disk)))
	}
	f.transactions(server)
	f.connections(server)
	return nil
}

// nearlyFull is the time before the disk is full at which doctor warns.
const nearlyFull = 14 * 24 * time.Hour

// retentionOverdue is the age of the last run of retention, which runs every hour, at which doctor warns.
const retentionOverdue = 6 * time.Hour

// growth reports how fast the database grows, and when its disk is full. state is nil before the first run of the
// schedule that measures it.
func (f *findings) growth(state *retention.State, err error) {
	const do = "enlarge the disk, or keep rows for a shorter time: docs/operations/database-growth.md"
	switch {
	case err != nil:
		f.add(Fail, "growth", "read the log of the database server", "%s", output.FirstLine(err))
	case state != nil && time.Since(state.MeasuredAt) > retentionOverdue:
		f.add(Warn, "growth", "look for the schedule pawl:retention in the Temporal UI, and read the log of the workers",
			"old rows are not deleted: the last run of retention ended at %s", output.Date(&state.MeasuredAt))
	case state == nil || state.GrowthPerDay == nil:
		f.add(OK, "growth", "", "known a day after the first run of the schedule retention")
	case state.DiskFullAt != nil && time.Until(*state.DiskFullAt) < nearlyFull:
		f.add(Warn, "growth", do, "%s a day: the disk is full at %s", output.Bytes(*state.GrowthPerDay),
			output.Date(state.DiskFullAt))
	case state.DiskFullAt != nil:
		f.add(OK, "growth", "", "%s a day: the disk is full at %s", output.Bytes(*state.GrowthPerDay),
			output.Date(state.DiskFullAt))
	default:
		f.add(OK, "growth", "", "%s a day", output.Bytes(*state.GrowthPerDay))
	}
}

func (f *findings) migrations(version int) {
	switch latest := schema.Latest(); {
	case version < latest:
		f.add(Fail, "migrations", "run `pawl migrate`: processes of this version do not start before the migration",
			"at version %d, but this version of pawl needs %d", version, latest)
	case version > latest:
		f.add(Warn, "migrations", "use the newer version of pawl; its changelog contains whether this version may continue to run",
			"at version %d, newer than version %d of this pawl", version, latest)
	default:
		f.add(OK, "migrations", "", "at version %d", version)
	}
}

func (f *findings) role(ctx context.Context, db schema.DB, server health.Server, version int, dev bool) {
	lacks, err := schema.LacksAsWorker(ctx, db)
	switch {
	case err != nil:
		f.add(Fail, "role", "read the log of the database server", "%s", output.FirstLine(err))
	case version == 0: // the tables do not exist yet
	case server.ReadOnly:
		f.add(Fail, "role", "use the URL of the primary as `database`, and check that default_transaction_read_only is off", "%s cannot write: the server is read-only", server.Role)
	case len(lacks) > 0:
		f.add(Fail, "role", fmt.Sprintf("run `pawl migrate --worker-role %s` as the owner of the database. If this is the role of an ingress or a console, run `pawl doctor` with the role of a worker instead", server.Role),
			"%s lacks %s", server.Role, few(lacks))
	case server.Superuser && !dev:
		f.add(Warn, "role", "create separate roles for the processes: `pawl migrate --ingress-role ROLE --worker-role ROLE --console-role ROLE`", "%s is a superuser", server.Role)
	case server.Owner && !server.Superuser:
		f.add(Warn, "role", "create separate roles for the processes, which cannot change the audit trail: `pawl migrate --ingress-role ROLE --worker-role ROLE --console-role ROLE`",
			"%s owns the tables", server.Role)
	default:
		f.add(OK, "role", "", "%s has the rights that it needs", server.Role)
	}
}

func (f *findings) durability(server health.Server) {
	if len(server.Off) > 0 {
		f.add(Fail, "durability", "turn it on: `alter system set … = on`, or change the setting of the database or the role", "off: %s; a crash of the server can lose acknowledged events",
			strings.Join(server.Off, ", "))
		return
	}
	f.add(OK, "durability", "", "synchronous_commit, fsync and full_page_writes are on")
}

func (f *findings) transactions(server health.Server) {
	of := ""
	if !server.SeesAll {
		of = " (transactions of this role only; `grant pg_read_all_stats` shows all)"
	}
	switch {
	case server.Oldest > longTransaction:
		f.add(Warn, "oldest transaction", "let its owner end it, or end it: `select pg_terminate_backend(PID)`. It prevents vacuum, and may hold locks",
			"%s, by %s", server.Oldest.Round(time.Second), server.OldestBy)
	case server.Oldest > 0:
		f.add(OK, "oldest transaction", "", "%s%s", server.Oldest.Round(time.Millisecond), of)
	default:
		f.add(OK, "oldest transaction", "", "none%s", of)
	}
}

func (f *findings) connections(server health.Server) {
	free := server.Most - server.Connections
	found := fmt.Sprintf("%d of %d are free", free, server.Most)
	if free < roomConns {
		f.add(Warn, "connections", fmt.Sprintf("raise max_connections, use a pooler, or limit the connections of the processes "+
			"with pool_max_conns in the DSN. An ingress uses up to %d, a worker %d, a console %d, a command %d",
			process.IngressConns, process.WorkerConns, process.ConsoleConns, process.CommandConns),
			"%s, but one more process of each kind and a command need %d", found, roomConns)
		return
	}
	f.add(OK, "connections", "", "%s", found)
}

// few returns the first names of a list and the number of the remaining names.
func few(list []string) string {
	const most = 4
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}
