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
