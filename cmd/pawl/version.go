package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
)

// build describes the source of this binary.
type build struct {
	// Version is the release, or "devel" for a build of a checkout.
	Version string `json:"version"`
	// Commit is the commit of the build, followed by "+changes" if the checkout had uncommitted changes. It is empty if
	// the build has no such information.
	Commit string `json:"commit"`
	Go     string `json:"go"`
}

func (b build) String() string {
	return fmt.Sprintf("pawl %s, commit %s, %s", b.Version, cmp.Or(b.Commit, "unknown"), b.Go)
}

func versionCommand(a *command.App) *cobra.Command {
	sbom := false
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version of this binary", Args: command.NoArgument,
		RunE: func(*cobra.Command, []string) error {
			if info, ok := debug.ReadBuildInfo(); sbom && ok {
				return a.Value(makeBOM(info))
			}
			return command.Emit(a, readBuild(), func(a *command.App, b build) {
				fmt.Fprintln(a.Out, b)
			})
		},
	}
	cmd.Flags().BoolVar(&sbom, "sbom", false, "list the modules in this binary, as CycloneDX JSON")
	return cmd
}

func readBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build{Version: "devel"}
	}
	b := build{Version: info.Main.Version, Go: info.GoVersion}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	if b.Commit != "" {
		b.Commit += changed
	}
	return b
}

// bom is a bill of materials in CycloneDX 1.6 JSON: https://cyclonedx.org/docs/1.6/json/. It contains the build
// information that the Go toolchain stores in a binary.
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   bomMetadata `json:"metadata"`
	Components []component `json:"components"`
}

type bomMetadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	// PURL is a package URL: https://github.com/package-url/purl-spec.
	PURL string `json:"purl,omitempty"`
	// Properties hold the checksum of the module in go.sum. CycloneDX has no hash type for the hash of a file tree.
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func makeBOM(info *debug.BuildInfo) bom {
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Components: []component{
		{Type: "library", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + info.GoVersion},
	}}
	of := readBuild()
	b.Metadata.Component = component{Type: "application", Name: info.Main.Path, Version: of.Version,
		Properties: []property{{"vcs.revision", of.Commit}}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, component{
			Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version,
			Properties: []property{{"go.sum", m.Sum}},
		})
	}
	return b
}
