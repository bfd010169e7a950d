package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
)

// A release sets these variables with the linker (-X main.version=v0.1.0). They override the build information of the
// Go toolchain, because the image is built without the directory .git.
var version, commit, date string

// build describes the source of this binary.
type build struct {
	// Version is the release, a pseudo-version, or "devel" for a build of a checkout.
	Version string `json:"version"`
	// Commit is the commit of the build, followed by "+changes" if the checkout had uncommitted changes. It is empty if
	// the build has no such information.
	Commit string `json:"commit"`
	// Date is the time of the commit (RFC 3339) and not of the build, so that two builds of a commit are equal. It is
	// empty if the build has no such information.
	Date string `json:"date"`
	Go   string `json:"go"`
}

func (b build) String() string {
	return fmt.Sprintf("pawl %s, commit %s, date %s, %s", b.Version, cmp.Or(b.Commit, "unknown"),
		cmp.Or(b.Date, "unknown"), b.Go)
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

// readBuild describes this binary.
func readBuild() build {
	info, _ := debug.ReadBuildInfo()
	return describe(info, build{Version: version, Commit: commit, Date: date})
}

// describe completes the values that the linker has set with the build information, which may be nil.
func describe(info *debug.BuildInfo, linked build) build {
	if info == nil {
		info = &debug.BuildInfo{}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	stamped := settings["vcs.revision"]
	if stamped != "" && settings["vcs.modified"] == "true" {
		stamped += "+changes"
	}
	main := info.Main.Version
	if main == "(devel)" {
		main = ""
	}
	return build{
		Version: cmp.Or(linked.Version, main, "devel"),
		Commit:  cmp.Or(linked.Commit, stamped),
		Date:    cmp.Or(linked.Date, settings["vcs.time"]),
		Go:      info.GoVersion,
	}
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
