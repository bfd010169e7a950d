package main

import "runtime/debug"

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
