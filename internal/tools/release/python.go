package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"go.millstream.dev/internal/tools/release/archive"
	"go.millstream.dev/internal/tools/release/wheel"
)

// namesExtra is the extra that brings the commands dask-scheduler and dask-worker. An extra can only add a dependency,
// so the commands are in a wheel of their own.
const (
	namesExtra  = "dask-names"
	namesWheel  = "millstream-dask-names"
	namesModule = "millstream_dask_names.py"
)

var (
	summaryLine  = regexp.MustCompile(`(?m)^description = "(.*)"$`)
	pythonLine   = regexp.MustCompile(`(?m)^requires-python = "(.*)"$`)
	dependencies = regexp.MustCompile(`(?ms)^dependencies = \[(.*?)\]`)
	quoted       = regexp.MustCompile(`"(.*?)"`)
)

// projectMetadata returns the lines of METADATA that follow from a pyproject.toml.
func projectMetadata(toml []byte) ([]string, error) {
	summary, python := summaryLine.FindSubmatch(toml), pythonLine.FindSubmatch(toml)
	needs := dependencies.FindSubmatch(toml)
	if summary == nil || python == nil || needs == nil {
		return nil, errors.New("python/pyproject.toml has no description, requires-python or dependencies; add them")
	}
	lines := []string{"Summary: " + string(summary[1]), "License: " + license, "Home-page: " + homepage,
		"Requires-Python: " + string(python[1])}
	for _, need := range quoted.FindAllSubmatch(needs[1], -1) {
		lines = append(lines, "Requires-Dist: "+string(need[1]))
	}
	return lines, nil
}

// wheel returns the Python package with the program of a target.
func (s *source) wheel(program archive.File) (archive.File, error) {
	toml, err := s.read("python/pyproject.toml")
	if err != nil {
		return archive.File{}, err
	}
	metadata, err := projectMetadata(toml)
	if err != nil {
		return archive.File{}, err
	}
	readme, err := s.read("python/README.md")
	if err != nil {
		return archive.File{}, err
	}
	platform, err := wheel.Platform(program.Data)
	if err != nil {
		return archive.File{}, err
	}
	w := &wheel.Wheel{Name: "millstream", Version: s.number(), Tag: "py3-none-" + platform, Readme: string(readme),
		Time: s.time, Scripts: []archive.File{program}}
	w.Metadata = append(metadata, "Provides-Extra: "+namesExtra,
		fmt.Sprintf("Requires-Dist: %s ==%s ; extra == '%s'", namesWheel, s.number(), namesExtra))
	const folder = "internal/dask/python/millstream"
	modules, err := filepath.Glob(filepath.Join(s.dir, folder, "*.py"))
	if err != nil || len(modules) == 0 {
		return archive.File{}, fmt.Errorf("no Python modules in %s, %w; check the commit", folder, err)
	}
	for _, module := range modules {
		name := filepath.Base(module)
		f, err := s.file(path.Join(folder, name), "millstream/"+name)
		if err != nil {
			return archive.File{}, err
		}
		w.Files = append(w.Files, f)
	}
	data, err := w.Build()
	return archive.File{Name: w.FileName(), Data: data}, err
}

// names returns the wheel with the commands dask-scheduler and dask-worker.
func (s *source) names() (archive.File, error) {
	module, err := s.file("python/names/"+namesModule, namesModule)
	if err != nil {
		return archive.File{}, err
	}
	w := &wheel.Wheel{Name: namesWheel, Version: s.number(), Tag: "py3-none-any", Time: s.time,
		Metadata: []string{"Summary: The commands dask-scheduler and dask-worker, run by Millstream",
			"License: " + license, "Home-page: " + homepage, "Requires-Python: >=3.10"},
		Files: []archive.File{module},
		Commands: map[string]string{"dask-scheduler": "millstream_dask_names:scheduler",
			"dask-worker": "millstream_dask_names:worker"}}
	data, err := w.Build()
	return archive.File{Name: w.FileName(), Data: data}, err
}

// hostWheels writes the wheels for this machine into a folder: what `pip install FOLDER/millstream-*.whl` needs.
func (s *source) hostWheels(ctx context.Context, host, folder string, find func(string) (string, error),
	log io.Writer) error {
	list, _ := targets(host, find)
	at := slices.IndexFunc(list, func(t target) bool { return t.arch == host }) // the one with cgo, if it can be built
	if at < 0 {
		return fmt.Errorf("no program for architecture %s; wheels are for amd64 and arm64", host)
	}
	built, err := s.build(ctx, list[at], programs[0])
	if err != nil {
		return err
	}
	w, err := s.wheel(built[0])
	if err != nil {
		return err
	}
	names, err := s.names()
	if err != nil {
		return err
	}
	return write(folder, log, w, names)
}
