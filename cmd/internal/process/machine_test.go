package process

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/localpg"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A core is left free for a database on this machine if both ends of a connection are local. An SSH tunnel and Cloud
// SQL's proxy also listen on this machine, but their database is on another machine. 127.0.0.2 represents another
// machine.
func TestBesideDatabase_SeenFromBothEnds(t *testing.T) {
	t.Parallel()
	server, socket := openServer(t)
	options, err := pgxpool.ParseConfig(server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	here, elsewhere := &net.Dialer{}, &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	address := net.JoinHostPort(options.ConnConfig.Host, strconv.Itoa(int(options.ConnConfig.Port)))
	for name, c := range map[string]struct {
		from             *net.Dialer
		network, address string
		beside           bool
	}{
		"on this machine":                  {here, "tcp", address, true},
		"on this machine, by its socket":   {here, "unix", socket, true},
		"on another":                       {elsewhere, "tcp", address, false},
		"behind a tunnel":                  {here, "tcp", proxy(t, "tcp", address), false},
		"behind a proxy to a socket there": {here, "tcp", proxy(t, "unix", socket), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := options.Copy()
			options.ConnConfig.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return c.from.DialContext(ctx, c.network, c.address)
			}
			pool, err := pgxpool.NewWithConfig(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			beside, err := (&Node{Pool: pool}).besideDatabase(t.Context())
			if err != nil || beside != c.beside {
				t.Errorf("on this machine: %t, %v; want %t", beside, err, c.beside)
			}
		})
	}
}

// proxy returns a local address that forwards each connection to another address.
func proxy(t *testing.T, network, address string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial(network, address)
			if err != nil {
				_ = near.Close()
				continue
			}
			go pass(near, far)
			go pass(far, near)
		}
	}()
	return listener.Addr().String()
}

// The test is not parallel, because a process has one GOMAXPROCS.
func TestLeaveCore_Environment_Decides(t *testing.T) {
	defer runtime.SetDefaultGOMAXPROCS()
	n := &Node{Pool: schematest.New(t), log: slog.New(slog.DiscardHandler)}
	for value, want := range map[string]int{"": 2, "3": 3} {
		runtime.GOMAXPROCS(3)
		n.leaveCore(t.Context(), func(name string) (string, bool) { return value, name == "GOMAXPROCS" })
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("GOMAXPROCS=%s: %d cores of 3 are used, want %d", value, got, want)
		}
	}
	runtime.GOMAXPROCS(1)
	if n.leaveCore(t.Context(), nil); runtime.GOMAXPROCS(0) != 1 {
		t.Error("the only core is left to the database")
	}
}

// The end of an ingress does not change a GOMAXPROCS from the environment either. The test is not parallel, for the
// same reason as the test above.
func TestIngress_CoresOfEnvironment_StayThem(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	cfg := load(t, schematest.NewDSN(t))
	noTemporal(t, cfg)
	cfg.Ops.Ingress, cfg.Ingress.Listen = "127.0.0.1:0", "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := Serve(ctx, Setup{
		Config: cfg, Providers: providers, Log: slog.New(slog.DiscardHandler),
		Env: func(name string) (string, bool) { return "3", name == "GOMAXPROCS" },
	}, Ingress, func(ctx context.Context, n *Node) error { return n.RunIngress(ctx, nil) })
	if err != nil {
		t.Error(err)
	}
	if got := runtime.GOMAXPROCS(0); got != 3 {
		t.Errorf("%d cores are used, want 3", got)
	}
}

// openServer returns a server that accepts connections from every loopback address, and from a socket.
func openServer(t *testing.T) (server *localpg.Server, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-open-") // the operating-system user of Postgres could not enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	hba := filepath.Join(dir, "pg_hba.conf")
	if err := os.WriteFile(hba, []byte("host all all 127.0.0.0/8 scram-sha-256\nlocal all all scram-sha-256\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	server, err = localpg.Start(context.Background(), localpg.Options{Ephemeral: true, Settings: map[string]string{
		"hba_file": hba, "unix_socket_directories": dir,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	sockets, err := filepath.Glob(filepath.Join(dir, ".s.PGSQL.*[0-9]"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %v, %v; want one", sockets, err)
	}
	return server, sockets[0]
}

func TestMemoryLimit_OfTheContainer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text string
		want       int64
	}{
		"no control group":    {"other", "1", 0},
		"no limit":            {"memory.max", "max\n", 0},
		"no limit, version 1": {"memory/memory.limit_in_bytes", "9223372036854771712\n", 0},
		"512 MB":              {"memory.max", "512000000\n", 460_800_000 - 64<<20},
		"version 1":           {"memory/memory.limit_in_bytes", "512000000\n", 460_800_000 - 64<<20},
		"a small one":         {"memory.max", "100000000\n", 50_000_000},
	} {
		root := t.TempDir()
		file := filepath.Join(root, c.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := memoryLimit(root); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
