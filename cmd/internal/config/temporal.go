package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// Temporal says which queue to work on and where the SDK's own configuration stands.
type Temporal struct {
	// ConfigFile and Profile name the SDK's TOML configuration; empty means its default place and
	// the TEMPORAL_* variables. A path is relative to the configuration file.
	ConfigFile string `yaml:"config_file" form:"path"`
	Profile    string `yaml:"profile"`
	TaskQueue  string `yaml:"task_queue" default:"pawl"`
	// UIURL is where the Temporal UI is, for links to its pages.
	UIURL string `yaml:"ui_url" form:"url"`

	// fileOnly keeps TEMPORAL_* variables out: a developer who works with another cluster must not
	// have `pawl dev` run against it.
	fileOnly bool
}

// check refuses a file that is not there: the SDK takes it for an empty one, and dials 127.0.0.1:7233.
func (t *Temporal) check(c *checker, _ string) {
	if t.ConfigFile == "" {
		return
	}
	if _, err := os.ReadFile(t.ConfigFile); err != nil {
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err
		}
		c.bad("temporal.config_file", fmt.Sprintf("the file %s cannot be read: %v", t.ConfigFile, err), "correct the path, or leave it out for the SDK's default place and TEMPORAL_* variables")
	}
}

// ClientOptions reads the SDK's own configuration: the named TOML file, with the TEMPORAL_*
// variables of the process on top (not in dev).
func (t Temporal) ClientOptions() (client.Options, error) {
	profile := t.Profile
	if t.fileOnly && profile == "" {
		profile = envconfig.DefaultConfigFileProfile
	}
	opts, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{
		ConfigFilePath: t.ConfigFile, ConfigFileProfile: profile,
		ConfigFileStrict: true, DisableEnv: t.fileOnly,
	})
	if err != nil {
		return client.Options{}, fmt.Errorf("temporal configuration (temporal.config_file, TEMPORAL_* variables): %w",
			err)
	}
	// Messages of a kilobyte: to compress them, the SDK's default, costs both sides more than their bytes do.
	opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	return opts, nil
}

// Namespace is the one that the SDK's configuration names.
func (t Temporal) Namespace() (string, error) {
	opts, err := t.ClientOptions()
	if err != nil {
		return "", err
	}
	return cmp.Or(opts.Namespace, client.DefaultNamespace), nil
}

// Page returns the URL of a run in the Temporal UI, "" if no UI is configured. An empty runID means the latest run.
func (t Temporal) Page(workflowID, runID string) string {
	namespace, err := t.Namespace()
	if t.UIURL == "" || workflowID == "" || err != nil {
		return ""
	}
	page := strings.TrimRight(t.UIURL, "/") + "/namespaces/" + url.PathEscape(namespace) + "/workflows/" +
		url.PathEscape(workflowID)
	if runID != "" {
		page += "/" + url.PathEscape(runID) + "/history"
	}
	return page
}
