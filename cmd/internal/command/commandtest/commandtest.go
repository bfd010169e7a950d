// Package commandtest runs the commands of pawl in the process of a test.
package commandtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/schema/schematest"
)

// Secret is the secret of each source of a stack.
const Secret = "whsec_0123456789abcdef0123456789abcdef"

// Away is an address where no Temporal server listens.
const Away = "127.0.0.1:1"

// Main sets the address of Temporal to an address without a server, and runs the tests. Otherwise tests that need no
// Temporal would connect to a server on the default port.
func Main(m *testing.M) {
	if err := os.Setenv("TEMPORAL_ADDRESS", Away); err != nil {
		panic(err)
	}
	schematest.Main(m)
}

// Result is the result of one call of the program.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs the program with this input and environment.
func Run(t *testing.T, program command.Program, in string, env map[string]string, args ...string) Result {
	t.Helper()
	var out, err bytes.Buffer
	code := program.Run(t.Context(), args, command.Stdio{In: strings.NewReader(in), Out: &out, Err: &err},
		func(key string) (string, bool) {
			v, ok := env[key]
			return v, ok
		})
	return Result{code, out.String(), err.String()}
}

// Decode reads a result's JSON.
func Decode[T any](t *testing.T, r Result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.Out), &v); err != nil {
		t.Fatalf("output is not JSON: %v\nstdout: %s\nstderr: %s", err, r.Out, r.Err)
	}
	return v
}

// Connect opens a separate connection to the database at dsn.
func Connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Stack is a configuration file, together with the environment variables that it refers to.
type Stack struct {
	Program command.Program
	File    string
	Env     map[string]string
}

// New writes a configuration with a source per provider name, on the database at dsn.
func New(t *testing.T, program command.Program, dsn string, sources map[string]string) Stack {
	t.Helper()
	s := Stack{program, filepath.Join(t.TempDir(), "pawl.yaml"), map[string]string{"DSN": dsn, "SECRET": Secret}}
	var b strings.Builder
	b.WriteString("database: env:DSN\nplans: {prices: {price_pro: pro}, features: {pro: [api]}}\n")
	b.WriteString("sinks:\n  workspaces: {url: 'http://w.test'}\n  finance: {url: 'http://f.test'}\n")
	b.WriteString("  email: {address: 'm.test:25', from: 'a@b.test'}\nsources:\n")
	for name, provider := range sources {
		mode := ""
		if provider == "stripe" { // the provider that bills requires the option
			mode = ", mode: live"
		}
		b.WriteString("  " + name + ": {provider: " + provider + mode + ", secrets: [{value: env:SECRET}]}\n")
	}
	Write(t, s.File, b.String())
	return s
}

// Sandbox returns a stack with a source and the DSN of its database. The API key of the source works at the simulated
// Stripe of a sandbox.
func Sandbox(t *testing.T, program command.Program, source string) (s Stack, dsn string) {
	t.Helper()
	dsn = schematest.NewDSN(t)
	stripe, err := sandbox.Start(t.Context(), sandbox.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stripe.Close() })
	s = New(t, program, dsn, map[string]string{source: "stripe"}).With("KEY", "rk_live_1")
	Write(t, s.File, strings.Replace(Read(t, s.File), "mode: live",
		"mode: live, api_key: env:KEY, api_url: '"+stripe.URL()+"/stripe'", 1))
	return s, dsn
}

// Locked returns a stack with a database in which another transaction locks all receipts until the test ends.
func Locked(t *testing.T, program command.Program) Stack {
	t.Helper()
	dsn := schematest.NewDSN(t)
	conn := Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `begin; lock table receipts`); err != nil {
		t.Fatal(err)
	}
	return New(t, program, dsn, map[string]string{"stripe": "stripe"})
}

// At sets the address of the Temporal server.
func (s Stack) At(t *testing.T, address string) Stack {
	t.Helper()
	Write(t, filepath.Join(filepath.Dir(s.File), "temporal.toml"),
		fmt.Sprintf("[profile.default]\naddress = %q\n", address))
	Write(t, s.File, Read(t, s.File)+"\ntemporal: {config_file: temporal.toml}\n")
	return s
}

// Pawl runs the program with the configuration of the stack.
func (s Stack) Pawl(t *testing.T, args ...string) Result {
	t.Helper()
	return Run(t, s.Program, "", s.Env, append([]string{"--config", s.File}, args...)...)
}

// Variable looks up a variable of the environment.
func (s Stack) Variable(key string) (string, bool) {
	value, ok := s.Env[key]
	return value, ok
}

// With returns the stack with one more variable.
func (s Stack) With(key, value string) Stack {
	s.Env = maps.Clone(s.Env)
	s.Env[key] = value
	return s
}

// Read returns the content of a file.
func Read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Write writes a file and its directory.
func Write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
