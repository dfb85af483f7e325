// Package sbom writes the bill of materials of a Go program, in the JSON form of SPDX 2.3, from the build information
// in its executable.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// Document is a document of SPDX.
type Document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      Creation       `json:"creationInfo"`
	Packages      []Package      `json:"packages"`
	Relationships []Relationship `json:"relationships"`
}

// Creation describes when and by what a document was made.
type Creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// Package is a module, the standard library, or the program itself.
type Package struct {
	ID         string      `json:"SPDXID"`
	Name       string      `json:"name"`
	Version    string      `json:"versionInfo"`
	Location   string      `json:"downloadLocation"`
	Analyzed   bool        `json:"filesAnalyzed"`
	Declared   string      `json:"licenseDeclared"`
	Concluded  string      `json:"licenseConcluded"`
	Copyright  string      `json:"copyrightText"`
	Source     string      `json:"sourceInfo,omitempty"`
	Checksums  []Checksum  `json:"checksums,omitempty"`
	References []Reference `json:"externalRefs,omitempty"`
}

// Checksum is a hash of the file of a package.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

// Reference names a package in another system, here as a package URL.
type Reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

// Relationship connects two elements of a document.
type Relationship struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// Program describes the program whose materials are listed.
type Program struct {
	Name, Version, License, Homepage string
	Time                             time.Time
}

const (
	unknown    = "NOASSERTION"
	documentID = "SPDXRef-DOCUMENT"
)

// Of returns the document of an executable of Go as JSON.
func Of(p Program, executable []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(executable))
	if err != nil {
		return nil, fmt.Errorf("sbom: %s: %w; build it with modules", p.Name, err)
	}
	b, err := json.MarshalIndent(document(p, info, sha256.Sum256(executable)), "", " ")
	return append(b, '\n'), err
}

func document(p Program, info *debug.BuildInfo, sum [sha256.Size]byte) *Document {
	hash := fmt.Sprintf("%x", sum)
	d := &Document{Version: "SPDX-2.3", License: "CC0-1.0", ID: documentID, Name: p.Name + "-" + p.Version,
		Namespace: p.Homepage + "/spdx/" + p.Name + "-" + p.Version + "-" + hash[:16],
		Creation:  Creation{p.Time.UTC().Format(time.RFC3339), []string{"Tool: millstream-release"}}}
	program := module("SPDXRef-Program", info.Main.Path, "v"+p.Version, "")
	program.Name, program.Version, program.Declared, program.Concluded = p.Name, p.Version, p.License, p.License
	program.Checksums = []Checksum{{"SHA256", hash}}
	program.Source = "go build " + strings.Join(settings(info), " ") + " " + info.Path
	d.Packages = append(d.Packages, program)
	d.relate(documentID, "DESCRIBES", program.ID)
	std := module("SPDXRef-Go", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")
	d.add(std)
	for i, m := range info.Deps {
		if m.Replace != nil && m.Replace.Version != "" {
			m = m.Replace
		}
		if m.Path == info.Main.Path || m.Sum == "" {
			continue // part of the program's own repository
		}
		d.add(module(fmt.Sprintf("SPDXRef-Module-%d", i+1), m.Path, m.Version, m.Sum))
	}
	return d
}

// add adds a package that the program contains.
func (d *Document) add(p Package) {
	d.Packages = append(d.Packages, p)
	d.relate(d.Packages[0].ID, "CONTAINS", p.ID)
}

func (d *Document) relate(from, kind, to string) {
	d.Relationships = append(d.Relationships, Relationship{from, kind, to})
}

func module(id, path, version, sum string) Package {
	p := Package{ID: id, Name: path, Version: version, Location: unknown, Declared: unknown, Concluded: unknown,
		Copyright: unknown}
	if sum != "" {
		p.Source = "go.sum " + sum
	}
	locator := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	p.References = []Reference{{"PACKAGE-MANAGER", "purl", locator}}
	return p
}

// settings returns the settings of the build that change the program.
func settings(info *debug.BuildInfo) []string {
	var list []string
	for _, s := range info.Settings {
		switch s.Key {
		case "CGO_ENABLED", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "vcs.revision", "-trimpath":
			list = append(list, s.Key+"="+s.Value)
		}
	}
	return list
}
