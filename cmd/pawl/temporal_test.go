//go:build !nodev

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/cmd/internal/namespace"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

// outcomes counts the steps by outcome.
func outcomes(t *testing.T, r commandtest.Result) map[string]int {
	t.Helper()
	if r.Code != 0 {
		t.Fatalf("exit %d: %s", r.Code, r.Err)
	}
	counts := map[string]int{}
	for _, s := range commandtest.Decode[setupResult](t, r).Steps {
		counts[s.Outcome]++
	}
	return counts
}

// The command sets up a new namespace on a real server, through TLS with a client certificate, and changes nothing at
// the second run. It works without the secrets of the configuration and without a database.
func TestTemporalSetup_NewNamespace_Complete(t *testing.T) {
	server, err := dev.StartTemporal(t.Context(), dev.TemporalOptions{Dir: t.TempDir(), Sync: dev.SyncNever, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	certs := makeCertificates(t)
	t.Setenv("TEMPORAL_ADDRESS", certs.tunnel(t, server.Addr()))
	t.Setenv("TEMPORAL_NAMESPACE", "billing")
	s := setup(t, "", map[string]string{"stripe": "stripe"})
	s.Env = map[string]string{}
	if r := s.Pawl(t, "temporal", "setup", "--wait", "0s"); r.Code != 1 || !strings.Contains(r.Err, "connect to Temporal") {
		t.Errorf("without a certificate: exit %d, %s", r.Code, r.Err)
	}
	t.Setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", certs.file("client.pem"))
	t.Setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", certs.file("client.key"))
	t.Setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", certs.file("ca.pem"))
	attributes := len(process.SearchAttributes())
	run := func(args ...string) map[string]int {
		t.Helper()
		return outcomes(t, s.Pawl(t, append([]string{"temporal", "setup", "--json"}, args...)...))
	}
	if got := run("--dry-run"); got[namespace.WouldCreate] != attributes+1 || len(got) != 1 {
		t.Errorf("a dry run: %v", got)
	}
	if got := run(); got[namespace.Created] != attributes+1 || len(got) != 1 {
		t.Errorf("the first run: %v, want everything created: the dry run must create nothing", got)
	}
	if got := run(); got[namespace.Exists] != attributes+2 || len(got) != 1 {
		t.Errorf("the second run: %v, want that everything exists", got)
	}
	retention := func() time.Duration {
		t.Helper()
		c, err := client.Dial(client.Options{HostPort: server.Addr(), Namespace: "billing"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		d, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "billing"})
		if err != nil {
			t.Fatal(err)
		}
		return d.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	}
	if got := retention(); got != 30*24*time.Hour {
		t.Errorf("a new namespace has a retention of %s", got)
	}
	if got := run("--retention", "7", "--dry-run"); got[namespace.WouldChange] != 1 || retention() != 30*24*time.Hour {
		t.Errorf("a dry run changes the retention: %v", got)
	}
	if got := run("--retention", "7"); got[namespace.Changed] != 1 || retention() != 7*24*time.Hour {
		t.Errorf("--retention 7: %v, and the namespace has %s", got, retention())
	}
	// pawl's own check agrees.
	r := s.With("DSN", "postgres://localhost:1/none").With("SECRET", commandtest.Secret).Pawl(t, "doctor")
	if !strings.Contains(r.Out, "are registered") || !strings.Contains(r.Out, "keeps ended runs for 7 days") {
		t.Errorf("doctor: %s%s", r.Out, r.Err)
	}
}

// A server that grants no permission, such as Temporal Cloud, gets the API key and the namespace with each request. The
// error lists the commands for an administrator.
func TestTemporalSetup_NoPermission_SaysWhatToDo(t *testing.T) {
	certs := makeCertificates(t)
	var refusal atomic.Value
	var denied atomic.Int32
	cloud := grpc.NewServer(grpc.Creds(credentials.NewTLS(certs.server(tls.NoClientCert))),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			md, _ := metadata.FromIncomingContext(stream.Context())
			if !slices.Equal(md.Get("authorization"), []string{"Bearer key-of-the-cloud"}) {
				return status.Error(codes.Unauthenticated, "no key")
			}
			if strings.HasSuffix(method, "/GetSystemInfo") {
				return errors.Join(stream.RecvMsg(&workflowservice.GetSystemInfoRequest{}),
					stream.SendMsg(&workflowservice.GetSystemInfoResponse{}))
			}
			denied.Add(1)
			return status.Error(refusal.Load().(codes.Code), "Request unauthorized.")
		}))
	checks := health.NewServer()
	checks.SetServingStatus("temporal.api.workflowservice.v1.WorkflowService", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(cloud, checks)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = cloud.Serve(l) }()
	t.Cleanup(cloud.Stop)
	t.Setenv("TEMPORAL_ADDRESS", l.Addr().String())
	t.Setenv("TEMPORAL_NAMESPACE", "pawl.a1b2c")
	t.Setenv("TEMPORAL_API_KEY", "key-of-the-cloud")
	t.Setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", certs.file("ca.pem"))
	s := setup(t, "", map[string]string{"stripe": "stripe"})
	for code, want := range map[codes.Code]string{
		codes.PermissionDenied: "tcld namespace search-attributes add --namespace pawl.a1b2c --search-attribute \"PawlProvider=Keyword\"",
		codes.Unauthenticated:  "Temporal does not accept the credentials (TEMPORAL_API_KEY or the client certificate)",
	} {
		refusal.Store(code)
		r := s.Pawl(t, "temporal", "setup")
		if r.Code != 1 || r.Out != "" || !strings.Contains(r.Err, want) || strings.Contains(r.Err, "key-of-the-cloud") {
			t.Errorf("%s: exit %d, %s%s\nwant %q", code, r.Code, r.Out, r.Err, want)
		}
	}
	if denied.Load() != 2 {
		t.Errorf("the server refused %d requests with the key, want 2", denied.Load())
	}
}

func TestTemporalSetup_ServerAway_NamesAddress(t *testing.T) {
	s := setup(t, "", map[string]string{"stripe": "stripe"})
	r := s.Pawl(t, "temporal", "setup", "--wait", "1s")
	if r.Code != 1 || !strings.Contains(r.Err, "waiting for Temporal: ") || !strings.Contains(r.Err, "pawl: connect to Temporal: ") {
		t.Errorf("exit %d, %s", r.Code, r.Err)
	}
}

// certificates are a certification authority with a certificate for a server at 127.0.0.1 and one for a client.
type certificates struct {
	dir  string
	pool *x509.CertPool
}

func (c certificates) file(name string) string { return filepath.Join(c.dir, name) }

func makeCertificates(t *testing.T) certificates {
	t.Helper()
	c := certificates{t.TempDir(), x509.NewCertPool()}
	write := func(name, kind string, content []byte) {
		commandtest.Write(t, c.file(name), string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})))
	}
	var ca *x509.Certificate
	var caKey *ecdsa.PrivateKey
	for i, name := range []string{"ca", "server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		of := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if ca == nil {
			of.IsCA, of.KeyUsage, of.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
			ca, caKey = of, key
		}
		signed, err := x509.CreateCertificate(rand.Reader, of, ca, &key.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(name+".pem", "CERTIFICATE", signed)
		write(name+".key", "EC PRIVATE KEY", private)
	}
	c.pool.AppendCertsFromPEM([]byte(commandtest.Read(t, c.file("ca.pem"))))
	return c
}

// server returns the TLS configuration of a gRPC server.
func (c certificates) server(clients tls.ClientAuthType) *tls.Config {
	own, err := tls.LoadX509KeyPair(c.file("server.pem"), c.file("server.key"))
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: c.pool, ClientAuth: clients,
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
}

// tunnel requires TLS with a client certificate, as a production server does, and forwards to address without TLS: the
// dev server has no TLS. It returns its own address.
func (c certificates) tunnel(t *testing.T, address string) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.server(tls.RequireAndVerifyClientCert))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	return l.Addr().String()
}
