package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what this binary was made from.
type build struct {
	// Version is the release, "devel" for a build of a checkout.
	Version string `json:"version"`
	// Commit is the checkout's, with "+changes" where it had uncommitted ones; "" where the build does not say.
	Commit string `json:"commit"`
	Go     string `json:"go"`
}

func versionCommand(a *app) *cobra.Command {
	sbom := false
	cmd := &cobra.Command{
		Use: "version", Short: "Say which pawl this is", Args: noArgument,
		RunE: func(*cobra.Command, []string) error {
			if info, ok := debug.ReadBuildInfo(); sbom && ok {
				return a.Value(makeBOM(info))
			}
			return emit(a, readBuild(), func(a *app, b build) {
				fmt.Fprintf(a.out, "pawl %s, commit %s, %s\n", b.Version, cmp.Or(b.Commit, "unknown"), b.Go)
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

// bom is a bill of materials in CycloneDX 1.6, as JSON: https://cyclonedx.org/docs/1.6/json/. It says what the Go tool
// chain has written into this very binary.
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
	// Properties hold the module's checksum as go.sum has it: a hash of a tree, which CycloneDX has no kind for.
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
