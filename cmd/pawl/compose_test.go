package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

// gRPC looks up a TXT record of the host name. On an internal network, Docker Engine before 23.0.11 never answers
// this lookup, and the client gives up after ten seconds.
func TestCompose_TemporalAddress_NeedsNoTXTRecord(t *testing.T) {
	t.Parallel()
	clients := 0
	for name, s := range compose(t).Services {
		address, set := s.Environment["TEMPORAL_ADDRESS"]
		if !set {
			continue
		}
		clients++
		if want := "passthrough:///temporal:7233"; address != want {
			t.Errorf("%s: TEMPORAL_ADDRESS is %s, want %s", name, address, want)
		}
	}
	if clients < 5 {
		t.Errorf("%d services have a TEMPORAL_ADDRESS, want at least 5", clients)
	}
}

// A network with an address in Docker's default pools fails as soon as another project uses this address.
func TestCompose_Subnets_OutsideOfDockersPools(t *testing.T) {
	t.Parallel()
	var pools []netip.Prefix // the default-address-pools of Docker Engine 20.10 to 29
	for second := 17; second <= 31; second++ {
		pools = append(pools, netip.MustParsePrefix(fmt.Sprintf("172.%d.0.0/16", second)))
	}
	pools = append(pools, netip.MustParsePrefix("192.168.0.0/16"))
	for name, network := range compose(t).Networks {
		for _, config := range network.IPAM.Config {
			subnet, err := netip.ParsePrefix(config.Subnet)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, pool := range pools {
				if pool.Overlaps(subnet) {
					t.Errorf("the network %s is %s, inside of Docker's pool %s", name, subnet, pool)
				}
			}
			if gateway := netip.MustParseAddr(config.Gateway); !subnet.Contains(gateway) {
				t.Errorf("the network %s: the gateway %s is not in %s", name, gateway, subnet)
			}
		}
	}
}

// The compose file works in a clone under umask 077, for a user who is not root: the users in the containers can read
// every mounted file, the owner can edit the secrets, and other users cannot read them.
func TestCompose_Files_UsableByOwnerAndContainers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := compose(t)
	mounted := map[string]bool{}
	for _, s := range c.Services {
		for _, volume := range s.Volumes {
			if from, _, _ := strings.Cut(volume, ":"); strings.HasPrefix(from, "./") {
				mounted[from] = true
			}
		}
	}
	for from := range mounted {
		content := commandtest.Read(t, filepath.Join(repository, from))
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(from)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, from), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(dir, "deploy", "compose", "secrets.sh")
	commandtest.Write(t, script, commandtest.Read(t, filepath.Join(repository, "deploy", "compose", "secrets.sh")))
	if out, err := exec.CommandContext(t.Context(), "sh", script).CombinedOutput(); err != nil {
		t.Fatalf("secrets.sh: %v: %s", err, out)
	}
	mode := func(path string) os.FileMode {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	for from := range mounted {
		if got := mode(from); got&0o004 == 0 {
			t.Errorf("%s has the mode %o: the containers' users cannot read it", from, got)
		}
	}
	for name, secret := range c.Secrets {
		if got := mode(secret.File); got != 0o644 {
			t.Errorf("the secret %s has the mode %o, want 644", name, got)
		}
	}
	if got := mode("deploy/compose/secrets"); got != 0o700 {
		t.Errorf("the directory of the secrets has the mode %o, want 700", got)
	}
}

// If several services built one tag, they would replace each other's image, and every `up --build` would recreate
// unchanged containers.
func TestCompose_Image_BuiltByOneService(t *testing.T) {
	t.Parallel()
	var builders []string
	c := compose(t)
	for name, s := range c.Services {
		if s.Build != nil {
			builders = append(builders, name)
		}
	}
	if len(builders) != 1 {
		t.Fatalf("%v build, want one service", builders)
	}
	for name, s := range c.Services {
		_, waits := s.DependsOn[builders[0]]
		if s.Image == "pawl:local" && !waits && name != builders[0] {
			t.Errorf("%s uses the image and does not wait for %s, which builds it", name, builders[0])
		}
	}
}

// temporalConns is the maximum number of connections that Temporal's server opens: its four services frontend,
// history, matching and worker each open 20 to the store and 10 for visibility.
const temporalConns = 4 * (20 + 10)

func TestCompose_MaxConnections_CoverThreeOfEachProcess(t *testing.T) {
	t.Parallel()
	command := strings.Join(compose(t).Services["postgres"].Command, " ")
	_, value, _ := strings.Cut(command, "max_connections=")
	most, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("postgres runs %q: %v", command, err)
	}
	const reserved = 3
	need := reserved + temporalConns + 3*(process.IngressConns+process.WorkerConns+process.ConsoleConns+process.CommandConns)
	if most < need {
		t.Errorf("max_connections is %d, want at least %d", most, need)
	}
}

// `pawl dev`, the benchmarks and the containers use the same versions of Temporal's server and UI.
func TestCompose_Temporal_VersionOfDevAndBenchmarks(t *testing.T) {
	t.Parallel()
	services := compose(t).Services
	for name, want := range map[string]string{
		"temporal":           "temporalio/server:" + dev.TemporalVersion,
		"temporal-schema":    "temporalio/admin-tools:" + dev.TemporalVersion,
		"temporal-namespace": "temporalio/admin-tools:" + dev.TemporalVersion,
		"temporal-ui":        "temporalio/ui:" + dev.TemporalUIVersion,
	} {
		if got := services[name].Image; got != want {
			t.Errorf("%s is %s, want %s as in cmd/internal/dev/install.go", name, got, want)
		}
	}
}

// Docker rejects more CPUs than the machine has, a log without a limit fills the disk, and two ingresses cannot share
// one port.
func TestCompose_Services_FitASmallMachine(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, s := range c.Services {
		if s.CPUs != "1" && s.CPUs != "1.0" && s.CPUs != "${PAWL_CPUS:-1}" {
			t.Errorf("%s: cpus is %q: Docker refuses it on a machine with one processor", name, s.CPUs)
		}
		if s.Logging.Driver != "json-file" || s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
			t.Errorf("%s: logging is %v, without a bound", name, s.Logging)
		}
	}
	for _, name := range []string{"mail", "temporal-ui"} {
		if user := c.Services[name].User; !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
			t.Errorf("%s runs as %q, want a user by number that is not root", name, user)
		}
	}
	if ports := c.Services["ingress"].Ports; !slices.Equal(ports, []string{"${PAWL_PUBLISH:-127.0.0.1:8080}:8080"}) {
		t.Errorf("the ingress publishes %q: PAWL_PUBLISH must be able to name a range", ports)
	}
}

// The example configuration must not send the first live event to a host that the user has not configured.
func TestCompose_Sinks_NoneUntilConfigured(t *testing.T) {
	t.Parallel()
	file := commandtest.Read(t, filepath.Join(repository, "deploy", "compose", "pawl.yaml"))
	var configured map[string]any
	if err := yaml.Unmarshal([]byte(file), &configured); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"sinks", "destinations", "notify"} {
		if _, set := configured[key]; set {
			t.Errorf("pawl.yaml has %s", key)
		}
	}
}
