package ucxbench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// Options specify what [Run] measures. Empty lists select their defaults.
type Options struct {
	// Cases are the names of cases (default: all but idle-cpu and ipc-map).
	Cases []string
	// Settings are the transports (default shm, tcp, auto; cuda_ipc for ipc-map alone).
	Settings []string
	// Modes are the progress modes (default spin).
	Modes []string
	// Mems are the kinds of memory (default heap, buffer; cuda, cuda-pool for ipc-map alone).
	Mems []string
	// Endpoints are the kinds of endpoints (default lifeline).
	Endpoints []string
	// Sizes are the message sizes in bytes (default: by kind of case).
	Sizes []int64
	// Peers are the peers to compare with (default none).
	Peers []string
	// Rounds is the number of rounds per figure, of which the best counts (default 5, quick 2).
	Rounds int
	// RoundTime is the duration of one round (default 200 ms, quick 50 ms).
	RoundTime time.Duration
	// Window is the number of outstanding operations in bandwidth cases (default 32, as in ucx_perftest).
	Window int
	// Goroutines is the number of goroutines of rate cases (default 64).
	Goroutines int
	// IdleTime is the duration of idle-cpu (default 5 s, quick 1 s).
	IdleTime time.Duration
	// Device is the CUDA device of device memory.
	Device int
	// Stage is ucx.Config.StageDevice in bytes (default 0).
	Stage int
	// Quick shortens the run: fewer cases, sizes, rounds and peers by default, and a second round only while time is
	// left.
	Quick bool

	// spare omits comparisons of little value, to stay within QuickTime: a polling peer is compared with mode spin,
	// Python with mode adaptive.
	spare bool
}

// QuickTime is the maximum duration of a quick run with default options on an idle machine.
const QuickTime = 25 * time.Second

// Job is one figure to measure.
type Job struct {
	Case                         Case
	Setting, Mode, Mem, Endpoint string
	Size                         int64
}

// group identifies jobs that can share one pair of processes.
type group struct {
	setting, mode, endpoint string
	cuda, counted           bool
}

func (j Job) group() group {
	return group{j.Setting, j.Mode, j.Endpoint, onDevice(j.Mem), j.Case.Kind == Mapping}
}

func (j Job) String() string {
	return fmt.Sprintf("%s %s %s %s %s", j.Case.Name, j.Setting, j.Mode, j.Mem, benchfmt.FormatSize(j.Size))
}

func defaultTo[T any](list *[]T, values ...T) {
	if len(*list) == 0 {
		*list = values
	}
}

// Complete sets the defaults and checks all names. Run calls it, too; a second call has no effect.
func (o *Options) Complete() error {
	if slices.Equal(o.Cases, []string{ipcMap}) { // it needs these settings
		defaultTo(&o.Settings, "cuda_ipc")
		defaultTo(&o.Mems, MemCUDA, MemPool)
	}
	if o.Quick {
		o.spare = o.spare || len(o.Modes) == 0 && len(o.Cases) == 0
		defaultTo(&o.Cases, "tag-lat", "tag-bw", "tag-rate", "am-lat")
		defaultTo(&o.Mems, MemHeap)
		defaultTo(&o.Modes, "spin", "adaptive")
	}
	if len(o.Cases) == 0 {
		for _, c := range cases {
			if c.Kind != Idle && c.Kind != Mapping {
				o.Cases = append(o.Cases, c.Name)
			}
		}
	}
	defaultTo(&o.Settings, "shm", "tcp", "auto")
	defaultTo(&o.Modes, "spin")
	defaultTo(&o.Mems, MemHeap, MemBuffer)
	defaultTo(&o.Endpoints, EndpointLifeline)
	rounds, roundTime, idle := 5, 200*time.Millisecond, 5*time.Second
	if o.Quick {
		rounds, roundTime, idle = 2, 50*time.Millisecond, time.Second
	}
	if o.Rounds == 0 {
		o.Rounds = rounds
	}
	if o.RoundTime == 0 {
		o.RoundTime = roundTime
	}
	if o.IdleTime == 0 {
		o.IdleTime = idle
	}
	if o.Window == 0 {
		o.Window = 32
	}
	if o.Goroutines == 0 {
		o.Goroutines = 64
	}
	return o.check()
}

func (o *Options) check() error {
	for _, list := range []struct {
		what       string
		got, known []string
	}{
		{"case", o.Cases, CaseNames()}, {"setting", o.Settings, SettingNames}, {"mode", o.Modes, ModeNames},
		{"memory", o.Mems, MemNames}, {"endpoint", o.Endpoints, EndpointNames}, {"peer", o.Peers, PeerNames},
	} {
		for _, name := range list.got {
			if err := checkName(list.what, name, list.known); err != nil {
				return err
			}
		}
	}
	switch {
	case o.Rounds < 1:
		return errors.New("the number of rounds must be at least 1")
	case o.Window < 1:
		return errors.New("the window must be at least 1")
	case o.Goroutines < 1:
		return errors.New("the number of goroutines must be at least 1")
	case o.RoundTime <= 0 || o.IdleTime <= 0:
		return errors.New("the time of a round must be positive")
	}
	for _, n := range o.Sizes {
		if n > maxPayload {
			return fmt.Errorf("size %s exceeds the maximum payload of %s", benchfmt.FormatSize(n),
				benchfmt.FormatSize(maxPayload))
		}
	}
	return nil
}

// maxPayload bounds the memory of a window.
const maxPayload = 4 << 30

// sizes returns the sizes of a case: those of the options, or the defaults of its kind.
func (o *Options) sizes(c Case) []int64 {
	switch {
	case c.Kind == Idle:
		return []int64{8}
	case len(o.Sizes) > 0:
		return o.Sizes
	case c.Kind == Rate:
		return []int64{8}
	case c.Kind == Mapping && !o.Quick:
		return []int64{1 << 20, 64 << 20}
	case o.Quick && c.Kind == Latency:
		return []int64{8}
	case o.Quick:
		return []int64{1 << 20}
	case c.Kind == Latency:
		return []int64{8, 1 << 10, 8 << 10, 64 << 10, 256 << 10}
	default:
		return []int64{1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20}
	}
}

// jobs returns the figures to measure, ordered so that jobs of one group are consecutive.
func (o *Options) jobs() ([]Job, error) {
	var jobs []Job
	for _, setting := range o.Settings {
		for _, mode := range o.Modes {
			for _, endpoint := range o.Endpoints {
				for _, name := range o.Cases {
					c, err := FindCase(name)
					if err != nil {
						return nil, err
					}
					for _, mem := range o.Mems {
						if skip(c, setting, mem, endpoint) {
							continue
						}
						for _, size := range o.sizes(c) {
							if size == 0 && (c.Kind == Bandwidth || c.Kind == Mapping || c.API == "put" ||
								c.API == "stream") {
								continue // there is no data to move or to verify
							}
							jobs = append(jobs, Job{c, setting, mode, mem, endpoint, size})
						}
					}
				}
			}
		}
	}
	// Host and device jobs need separate processes.
	slices.SortStableFunc(jobs, func(a, b Job) int {
		if ka, kb := a.sortKey(o), b.sortKey(o); ka != kb {
			return ka - kb
		}
		return 0
	})
	if len(jobs) == 0 {
		return nil, errors.New("nothing to measure: the chosen cases, settings, memory and sizes exclude each other")
	}
	return jobs, nil
}

// compares reports whether a peer is compared for a job.
func (o *Options) compares(peer string, j Job) bool {
	switch {
	case !o.spare:
		return true
	case peer == benchpeer.UCXXAsyncName || peer == benchpeer.UCXXCoreName:
		return j.Mode == "adaptive" && j.Case.Kind == Latency
	default:
		return j.Mode == "spin"
	}
}

func (j Job) sortKey(o *Options) int {
	key := slices.Index(o.Settings, j.Setting)
	key = key*len(o.Modes) + slices.Index(o.Modes, j.Mode)
	key = key*len(o.Endpoints) + slices.Index(o.Endpoints, j.Endpoint)
	key *= 3
	switch {
	case j.Case.Kind == Mapping:
		key += 2
	case onDevice(j.Mem):
		key++
	}
	return key
}

// skip reports whether a combination is meaningless.
func skip(c Case, setting, mem, endpoint string) bool {
	switch {
	case setting == "cuda_ipc" && !onDevice(mem):
		return true // cuda_ipc does not transfer host memory
	case setting == "shm" && endpoint == EndpointSockaddr:
		return true // shared memory has no connection manager
	case c.Kind == Idle && mem != MemHeap:
		return true // there is no payload
	case c.Kind == Mapping && !onDevice(mem):
		return true // host memory is not opened by IPC handles
	case c.API == "put" && c.Kind == Latency && onDevice(mem):
		return true // the CPU cannot poll device memory
	}
	return false
}
