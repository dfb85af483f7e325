package task

import (
	"fmt"
	"strings"

	"go.millstream.dev/internal/task/internal/buildid"
	"go.millstream.dev/internal/task/taskid"
)

// build replaces the build ID of the executable when it is not empty: see DeclareBuild.
var build string

// DeclareBuild replaces the build ID of the executable; "" leaves it. Package client calls it at initialization with
// the text that a linker flag sets. Programs that are one version and several files, such as one for each
// architecture, need it.
func DeclareBuild(text string) { build = text }

// maxBuild bounds build, which is a part of Hash.
const maxBuild = 64

// BuildID returns what identifies the program of this process: equal in processes of one executable file, and other
// after any change of its code. It is the content part of the go command's build ID, or a hash of the whole file
// where that has none, or what DeclareBuild says.
func BuildID() string {
	if build != "" {
		return strings.ReplaceAll(build[:min(len(build), maxBuild)], "\n", " ")
	}
	return buildid.Current().ID
}

// BuildText describes the program of this process for messages: its name, build ID, and revision where known.
func BuildText() string {
	b := buildid.Current()
	b.ID = BuildID()
	return b.String()
}

// SplitHash returns the two parts of a Hash: that of the functions' names and signatures, and the build ID. build is
// empty in a hash that stands for the functions of any build.
func SplitHash(hash string) (functions, build string) { return taskid.SplitHash(hash) }

// CheckHash reports whether this process has the functions of a hash, in the build that the hash names: nil, or an
// error that says what differs. "" stands for any functions. Where a scheduler knows of hashes it has looked at them
// already; Dask's does not.
func CheckHash(hash string) error {
	functions, build := SplitHash(hash)
	mine, _ := SplitHash(Hash())
	switch {
	case hash == "" || hash == Hash() || hash == mine:
		return nil
	case functions != mine:
		return fmt.Errorf("task: the client has other functions than this worker, %s; start workers of the "+
			"client's program", BuildText())
	}
	return fmt.Errorf("task: the client has build %s, this worker runs %s; restart the worker with the "+
		"client's program, "+
		"or allow other builds (millstream.any-build)", build, BuildText())
}

// Signatures returns a short hash of each function's signature, in the order of Names. Together they name the functions
// that two programs do not share.
func Signatures() []string {
	names := Names()
	out := make([]string, len(names))
	for i, name := range names {
		if f, ok := Lookup(name); ok {
			out[i] = shortHash(f.signature)
		}
	}
	return out
}
