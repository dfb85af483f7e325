package rules

import (
	"fmt"
	"strconv"
	"strings"
)

// layers lists the packages of the design, top first. A package belongs to the entry that is the longest prefix of its
// path, so ucx/internal/x is part of ucx. It may import packages of its own entry and of lower rows, but not those of
// another entry in its row. The transports in comm implement its interfaces and register with it, so they are above it.
var layers = [][]string{
	{"tests"},
	{"bench", "otel"},
	{"examples"},
	{"cmd", "internal/tools/kernels", "internal/tools/release"},
	{".", "cli"}, // programs of users link no commands unless they import cli
	// two processes that measure UCX, and the simulated cluster, which are not part of the public API
	{"internal/bench/ucxbench", "internal/engine/sim"},
	{"frame"},
	{"clique"},
	{"cluster"},
	{"client"},
	{"scheduler", "worker"},
	{"internal/dashboard"},           // history of a cluster and its pages, for the scheduler and cli
	{"internal/engine/worker/store"}, // results of a worker, in memory and on disk
	{"scheduler/internal/pygraph"},   // Python graphs as tasks, for the scheduler
	{"internal/dask/gotask"},         // Go functions in Python graphs, for scheduler and worker
	{"internal/comm/peernet"},        // connections between tasks of workers, for clients and cliques in tasks
	// API of running tasks; the rest of the module uses internal/task
	{"task"},
	{"internal/task"},
	// data connections of workers and reads of their memory, for clients and workers
	{"internal/comm/dataconn", "internal/comm/peermem"},
	{"internal/rpc"},
	{"internal/collective"}, // the engine of cliques, over comm and ucx
	// Only tests import these: a comm backend, descriptions of values, and below the transports the cases for comms.
	{"internal/testkit/sim", "internal/testkit/wiretest", "internal/testkit/pickletest"},
	{"internal/dask/commpeer"}, // pairs of processes that exchange Dask messages, over every transport
	{"internal/comm/inproc", "comm/ucxcomm"},
	{"internal/comm/tcp"}, // registered by comm/ucxcomm, too
	{"internal/testkit/commtest"},
	{"internal/comm/handshake"},
	{"internal/comm/limits"},
	{"comm"},
	{"internal/comm/commaddr", "internal/comm/descriptors"},
	{"internal/device/staging/stagetest"}, // a device for tests of comms
	{"secure"},
	{"internal/wire/arrowipc"}, // codec of Arrow, which registers with internal/wire/libcodec
	// messages of streams; statistical profiles of processes, with the form of Dask's
	{"internal/wire/message", "internal/proc/profile"},
	{"internal/wire/framing", "internal/wire/pickled"},
	{"wire"},
	{"internal/wire/libcodec"},
	{"internal/dask/pyproc"},
	{"internal/tools/states"},   // prints the tables of the engines
	{"internal/tools/messages"}, // writes the codecs of internal/wire/message
	{"internal/engine/scheduler/state", "internal/engine/worker/state"},
	{"internal/task/taskid"}, // keys and hashes of registries, for the engines and task
	{"internal/wire/msgpack", "internal/wire/pickle", "internal/wire/compress", "internal/wire/block",
		"internal/wire/bridge"},
	{"config"},
	{"internal/device/topology"},
	{"comm/ucxcomm/internal/ucxmux"}, // connections by worker address, for comm/ucxcomm
	{"ucx", "nccl"},
	{"internal/device/kernels/lloydfit"}, // k-means of ranks, for frames and the C library
	{"internal/device/kernels/gpulloyd", "internal/device/kernels/gputsqr"}, // algorithms on a GPU, for frames
	{"internal/device/kernels"}, // device code, for collectives and algorithms
	{"internal/device/devmem"},  // GPU memory of the processes of a cluster
	{"cuda"},
	{"internal/device/staging"}, // staged transfers of GPU memory, for comms
	{"internal/device/copier"},  // copy queues and pinned memory of a device, registered by cuda
	{"mem"},
	{"internal/dask/python"},
	{"docs"}, // the documents, for the binary
	{"internal"},
}

// layerOf returns the row and the entry of a package folder.
func layerOf(pkg string) (row int, entry string, ok bool) {
	for i, names := range layers {
		for _, name := range names {
			matches := pkg == name || name != "." && strings.HasPrefix(pkg, name+"/")
			if matches && len(name) > len(entry) {
				row, entry, ok = i, name, true
			}
		}
	}
	return row, entry, ok
}

// checkLayers requires that imports point down. The _test package of a package may import any package.
func checkLayers(s *source) []Problem {
	if s.file == nil || s.isTest() && strings.HasSuffix(s.file.Name.Name, "_test") {
		return nil
	}
	row, entry, ok := layerOf(s.pkg())
	if !ok {
		return []Problem{{s.name, s.lineOf(s.file.Package), "layers",
			fmt.Sprintf("package %s is not in the layers; add it to internal/tools/lint/rules/layers.go and "+
				"to the design", s.pkg())}}
	}
	var problems []Problem
	for _, imp := range s.file.Imports {
		target, ok := localImport(s.module, imp.Path.Value)
		if !ok {
			continue
		}
		to, toEntry, ok := layerOf(target)
		var text string
		switch {
		case !ok:
			text = fmt.Sprintf("imports %s, which is not in the layers", target)
		case toEntry == entry || to > row:
			continue
		case to == row:
			text = fmt.Sprintf("%s imports %s of the same layer; move the shared code below them", entry, toEntry)
		default:
			text = fmt.Sprintf("%s imports %s, which is above it; imports must point down", entry, toEntry)
		}
		problems = append(problems, Problem{s.name, s.lineOf(imp.Pos()), "layers", text})
	}
	return problems
}

// localImport returns the folder of an import of this module.
func localImport(module, quoted string) (folder string, ok bool) {
	p, err := strconv.Unquote(quoted)
	if err != nil {
		return "", false
	}
	if p == module {
		return ".", true
	}
	return strings.CutPrefix(p, module+"/")
}

// bans are imports that the layers allow but the design does not.
var bans = []struct {
	from string   // entry of the layers
	what []string // import paths, relative ones for this module; a trailing /... matches a subtree
	why  string
}{
	{"ucx", []string{"./cuda", "./cuda/..."}, "ucx works without a GPU; cuda installs its hook into the shim instead"},
	{"mem", []string{"C"}, "mem is pure Go"},
	{"internal/engine/scheduler/state", impure, "a state machine is pure: time and events come in through Apply"},
	{"internal/engine/worker/state", impure, "a state machine is pure: time and events come in through Apply"},
}

var impure = []string{"C", "os", "os/...", "net", "net/...", "math/rand", "math/rand/v2", "crypto/rand", "sync",
	"context"}

func checkBans(s *source) []Problem {
	if s.file == nil || s.isTest() {
		return nil
	}
	_, entry, _ := layerOf(s.pkg())
	var problems []Problem
	for _, ban := range bans {
		if ban.from != entry {
			continue
		}
		for _, imp := range s.file.Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				continue
			}
			if folder, ok := localImport(s.module, imp.Path.Value); ok {
				p = "./" + folder
			}
			for _, pattern := range ban.what {
				prefix, tree := strings.CutSuffix(pattern, "/...")
				if p == pattern || tree && strings.HasPrefix(p, prefix+"/") {
					problems = append(problems, Problem{s.name, s.lineOf(imp.Pos()), "bans",
						fmt.Sprintf("%s must not import %q: %s", entry, p, ban.why)})
				}
			}
		}
	}
	return problems
}
