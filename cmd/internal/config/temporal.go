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

// Temporal configures the task queue and the location of the SDK's own configuration.
type Temporal struct {
	// ConfigFile and Profile select the SDK's TOML configuration. If they are empty, its default location and the
	// TEMPORAL_* variables are used. A path is relative to the configuration file.
	ConfigFile string `yaml:"config_file" form:"path"`
	Profile    string `yaml:"profile"`
	TaskQueue  string `yaml:"task_queue" default:"pawl"`
	// UIURL is the URL of the Temporal UI, for links.
	UIURL string `yaml:"ui_url" form:"url"`

	// fileOnly disables TEMPORAL_* variables: `pawl dev` must not run against another cluster for which the developer
	// has set them.
	fileOnly bool
}

// check rejects a missing file. The SDK would treat it as empty and dial 127.0.0.1:7233.
func (t *Temporal) check(c *checker, _ string) {
	if t.ConfigFile == "" {
		return
	}
	if _, err := os.ReadFile(t.ConfigFile); err != nil {
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err
		}
		c.bad("temporal.config_file", fmt.Sprintf("the file %s cannot be read: %v", t.ConfigFile, err), "correct the path, or remove it to use the SDK's default file and the TEMPORAL_* variables")
	}
}

// ClientOptions returns the SDK's own configuration: the TOML file, overridden by the TEMPORAL_* variables of the
// process (except in dev).
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
	// The messages have about a kilobyte. Compressing them, which is the SDK's default, costs both sides more than it
	// saves.
	opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	return opts, nil
}

// Namespace returns the namespace of the SDK's configuration.
func (t Temporal) Namespace() (string, error) {
	opts, err := t.ClientOptions()
	if err != nil {
		return "", err
	}
	return cmp.Or(opts.Namespace, client.DefaultNamespace), nil
}

// Page returns the URL of a run in the Temporal UI, or "" if no UI is configured. An empty runID means the latest
// run.
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
