// Package peers has the data of workers and clients that the scheduler keeps in addition to the state machine, and
// their streams.
package peers

import (
	"fmt"
	"math"
	"strings"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Worker is the data of a worker in addition to the state. The loop owns it.
type Worker struct {
	ID       state.WorkerID
	Address  string
	Name     any    // a string or a number, as the worker sent it
	Alias    string // the name as msgpack
	Host     string
	ServerID string
	Nanny    any
	PID      int64
	Dir      string
	Services any
	Versions any
	Extra    msgpack.Map
	Metrics  any
	LastSeen time.Time
	Delay    float64 // seconds that its clock is behind this one
	warned   bool    // implausible figures have been logged
	Stream   *Stream
	Recorded Recorded

	Incarnation string // secret for reconnecting with results; "" for Python workers
	MayReturn   bool   // its connection was lost and its process may still run

	Token  string        // for its nanny to report how its process ended; "" without a nanny
	Cause  string        // why its process ended, "" if unknown
	Caused chan struct{} // closed when Cause is set
}

// Recorded is what the dashboard keeps of a worker.
type Recorded struct {
	ID     uint32 // in its history, plus one; 0 before the first record
	Paused int64  // since when the worker is paused, ns since 1970; 0 if it is not
	// WasPaused is the start and the end of its last pause.
	WasPaused [2]int64
	// Figures of the last heartbeat: percent of a core, bytes.
	CPU                   float64
	RSS, Managed, Spilled int64
	// GPU are those of its GPU; nil without one.
	GPU *RecordedGPU
	// Transports are those of its transfers, a few.
	Transports []string
	// Cliques are those of its last heartbeat.
	Cliques []CliqueReport
}

// RecordedGPU are figures of a GPU: bytes, and percent.
type RecordedGPU struct {
	Used, Pinned int64
	Utilization  float64
}

// Registration are the arguments of register-worker.
type Registration struct {
	Address     string      `rpc:"address"`
	Status      string      `rpc:"status,optional"`
	ServerID    string      `rpc:"server_id,optional"`
	Threads     int         `rpc:"nthreads"`
	Name        any         `rpc:"name,optional"`
	Resolve     any         `rpc:"resolve_address,optional"`
	Now         float64     `rpc:"now,optional"`
	Resources   msgpack.Map `rpc:"resources,optional"`
	HostInfo    any         `rpc:"host_info,optional"`
	MemoryLimit any         `rpc:"memory_limit,optional"`
	Metrics     any         `rpc:"metrics,optional"`
	PID         int64       `rpc:"pid,optional"`
	Services    any         `rpc:"services,optional"`
	Directory   string      `rpc:"local_directory,optional"`
	Versions    any         `rpc:"versions,optional"`
	Nanny       any         `rpc:"nanny,optional"`
	Extra       msgpack.Map `rpc:"extra,optional"`
	Stimulus    string      `rpc:"stimulus_id,optional"`
}

// NameTaken is returned for a worker's name that another worker has.
type NameTaken struct{ Name any }

func (e *NameTaken) Error() string { return fmt.Sprintf("name taken, %v", e.Name) }

// NewWorker checks a registration. It runs outside of the loop and copies the arguments that are kept.
func NewWorker(in *Registration) (*Worker, *state.AddWorker, error) {
	bad := func(format string, args ...any) (*Worker, *state.AddWorker, error) {
		return nil, nil, &rpc.Exception{Type: "ValueError", Message: "register-worker: " + fmt.Sprintf(format, args...)}
	}
	address := commaddr.Normalize(in.Address)
	host, err := comm.AddressHost(address)
	if err != nil {
		return bad("address %q: %v", in.Address, err)
	}
	if in.Threads < 1 {
		return bad("nthreads is %d, want at least 1", in.Threads)
	}
	status, ok := state.ParseStatus(val.OrText(in.Status, "running"))
	if !ok {
		return bad("unknown status %q", in.Status)
	}
	w := &Worker{
		Address: strings.Clone(address), Host: strings.Clone(host), ServerID: strings.Clone(in.ServerID), PID: in.PID,
		Dir:  strings.Clone(in.Directory),
		Name: wire.Clone(in.Name), Nanny: wire.Clone(in.Nanny), Services: wire.Clone(in.Services),
		Versions: wire.Clone(in.Versions), Metrics: wire.Clone(in.Metrics),
	}
	w.Caused = make(chan struct{})
	w.Extra, _ = wire.Clone(in.Extra).(msgpack.Map)
	switch w.Name.(type) {
	case nil:
		w.Name = w.Address
	case msgpack.Map, []any:
		return bad("name %v: want a string or a number", w.Name)
	}
	alias, err := msgpack.Append(nil, w.Name)
	if err != nil {
		return bad("name %v: %v", w.Name, err)
	}
	w.Alias = string(alias)
	ev := &state.AddWorker{Address: w.Address, Name: NameText(w.Name), Host: w.Host, Threads: in.Threads,
		Status: status, Data: w}
	if ev.MemoryLimit, ok = val.Integer(in.MemoryLimit); !ok && in.MemoryLimit != nil {
		return bad("memory_limit is %v, want a number of bytes or None", in.MemoryLimit)
	}
	if ev.Resources, err = Resources(in.Resources); err != nil {
		return bad("resources: %v", err)
	}
	ev.Can = state.Python
	if ours, ok := w.Extra.Get("millstream"); ok {
		m, _ := ours.(msgpack.Map)
		ev.Registry = strings.Clone(m.GetString("registry"))
		ev.Can = state.Go
		w.Token = m.GetString("death-token")
		w.Incarnation = m.GetString("incarnation")
		m.Delete("death-token") // secrets; identity shows the rest
		m.Delete("incarnation")
		w.Extra.Set("millstream", m)
		if python, _ := m.Get("python"); python == true {
			ev.Can |= state.Python
		}
		values, _ := m.Get("values")
		ahead, _ := m.Get("ahead")
		ev.Values, ev.Ahead = values == true, ahead == true
	}
	if in.Now > 0 {
		w.Delay = val.Seconds(time.Now()) - in.Now
	}
	return w, ev, nil
}

// NameText returns a worker's name in the form of restrictions.
func NameText(name any) string {
	if t, ok := name.(string); ok {
		return t
	}
	return fmt.Sprint(name)
}

func Resources(m msgpack.Map) ([]state.Resource, error) {
	var out []state.Resource
	for name, v := range m.All() {
		n, ok := name.(string)
		amount, ok2 := val.Number(v)
		if !ok || !ok2 || amount < 0 || math.IsNaN(amount) {
			return nil, fmt.Errorf("%v: %v is not an amount", name, v)
		}
		out = append(out, state.Resource{Name: strings.Clone(n), Amount: amount})
	}
	return out, nil
}

// IntervalFor returns Dask's heartbeat interval for n peers, in seconds.
func IntervalFor(n int) float64 {
	switch {
	case n <= 10:
		return 0.5
	case n < 50:
		return 1
	case n < 200:
		return 2
	}
	return float64(n)/200 + 1
}

// Same reports whether two registrations are of one process.
func (w *Worker) Same(other *Worker) bool {
	return w.ServerID == other.ServerID && w.Incarnation == other.Incarnation
}
