// Package deps tests what packages link, transitively, as `go list -deps` reports it for the default build. Layers say
// which packages may import each other; these rules say what a program gets that imports one of them.
package deps

// rule bounds what packages link.
type rule struct {
	name  string
	roots []string // packages that the rule is about, relative to the module
	// without are packages that no root links, relative to the module if they begin with "./"; a trailing /... is a
	// whole subtree. "C" is cgo.
	without []string
	// direct are packages that no package of the module on the way imports, though the standard library may: fmt links
	// os.
	direct []string
	// only, if not nil, are the packages outside of the standard library that roots may link besides themselves.
	only []string
	// timeless forbids the clock and timers of package time to the packages of the module on the way.
	timeless bool
	why      string
}

var rules = []rule{
	{
		name:  "engines are pure",
		roots: []string{"./internal/engine/scheduler/state", "./internal/engine/worker/state"},
		only: []string{"./internal/task/taskid", "./internal/task/taskid/keysplit",
			"./internal/wire/msgpack"},
		without:  []string{"C", "runtime/cgo", "net", "net/...", "crypto", "crypto/..."},
		direct:   []string{"os", "os/...", "syscall", "math/rand", "math/rand/v2", "sync", "context"},
		timeless: true,
		why:      "a state machine is pure: time and events come in through Apply",
	},
	{
		name: "no CUDA without a GPU",
		roots: []string{"./task", "./internal/task", "./scheduler", "./worker", "./client", "./comm",
			"./internal/comm/tcp",
			"./comm/ucxcomm",
			"./internal/comm/inproc", "./internal/rpc", "./ucx"},
		without: []string{"./cuda", "./cuda/...", "./internal/device/cudrv"},
		why: "schedulers, clients and workers run on machines without GPUs; package cuda registers with " +
			"those who use it",
	},
	{
		name: "no Arrow without its codec",
		roots: []string{"./cluster", "./client", "./wire", "./comm", "./internal/comm/tcp", "./internal/comm/inproc",
			"./comm/ucxcomm", "./internal/rpc", "./task", "./internal/task"},
		without: []string{"github.com/apache/arrow-go/...", "github.com/google/flatbuffers/...",
			"./internal/wire/arrowipc"},
		why: "programs that move bytes or values of Go need no tables; internal/wire/arrowipc registers the " +
			"codec of Arrow",
	},
	{
		name:  "Parquet without a library",
		roots: []string{".", "./frame"},
		without: []string{"github.com/apache/arrow-go/v18/parquet/...", "github.com/apache/thrift/...",
			"google.golang.org/grpc/...", "github.com/andybalholm/brotli/..."},
		why: "frame/internal/parquet reads files within bounds; the library links gRPC",
	},
	{
		name:    "programs without Parquet",
		roots:   []string{"."},
		without: []string{"./frame", "./frame/..."},
		why:     "programs without tables need no file formats",
	},
	{
		name:    "tasks without a network",
		roots:   []string{"./task", "./internal/task"},
		without: []string{"./comm", "./comm/...", "./internal/rpc", "./secure", "./config", "net", "crypto/tls"},
		why:     "the worker fills in how tasks reach other processes, see internal/comm/peernet",
	},
	{
		name:    "programs without commands",
		roots:   []string{"."},
		without: []string{"./cli", "./cli/...", "./bench/...", "./internal/bench/...", "github.com/spf13/cobra"},
		why:     "a program of users links no commands and no benchmarks unless it imports cli",
	},
}
