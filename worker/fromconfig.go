package worker

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"

	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/secure"
)

// FromConfig returns the worker settings of a Dask configuration: distributed.worker.*, distributed.comm.* (see
// comm.FromConfig), temporary-directory and scheduler-address. The memory limit is left to the caller, because it is a
// flag in Dask.
func FromConfig(c *config.Config) (Config, error) {
	out := Config{}
	r := reader{c: c}
	out.Scheduler = r.text("scheduler-address")
	out.LocalDirectory = r.text("temporary-directory")
	out.Incoming = r.count("distributed.worker.connections.incoming")
	out.Outgoing = r.count("distributed.worker.connections.outgoing")
	out.MessageBytes = r.bytes("distributed.worker.transfer.message-bytes-limit")
	out.Resources = r.resources("distributed.worker.resources")
	var err error
	out.Blocked, err = c.Strings("distributed.worker.blocked-handlers", nil)
	r.add(err)
	out.Python.Preload, err = c.Strings("distributed.worker.preload", nil)
	r.add(err)
	out.Python.PreloadArgv, err = c.Strings("distributed.worker.preload-argv", nil)
	r.add(err)
	out.Validate, err = c.Bool("distributed.worker.validate", false)
	r.add(err)
	out.Memory = Memory{
		Target:    r.fraction("distributed.worker.memory.target"),
		Spill:     r.fraction("distributed.worker.memory.spill"),
		Pause:     r.fraction("distributed.worker.memory.pause"),
		Terminate: r.fraction("distributed.worker.memory.terminate"),
		Transfer:  r.fraction("distributed.worker.memory.transfer"),
		MaxSpill:  r.bytes("distributed.worker.memory.max-spill"),
	}
	if v := c.Get("distributed.worker.memory.spill-compression", nil); v != nil {
		out.Memory.Compression = r.text("distributed.worker.memory.spill-compression")
	}
	out.Memory.Interval, err = c.Duration("distributed.worker.memory.monitor-interval", 0)
	r.add(err)
	if v := c.Get("distributed.worker.lifetime.duration", nil); v != nil {
		out.Lifetime, err = c.Duration("distributed.worker.lifetime.duration", 0)
		r.add(err)
	}
	out.ProfileInterval, out.ProfileCycle, err = profile.FromConfig(c)
	r.add(err)
	out.ProfileLength = r.count("distributed.admin.low-level-log-length")
	out.Python.AllowedFailures = r.count("distributed.scheduler.allowed-failures")
	out.Python.Interpreter = r.text("millstream.python")
	out.Python.Security = r.security()
	out.DashboardToken, err = httpguard.Token(r.text("millstream.dashboard.token"),
		r.text("millstream.dashboard.token-file"))
	r.add(err)
	out.Dial, out.Accept, err = comm.FromConfig(c, secure.Worker)
	r.add(err)
	return out, errors.Join(r.errs...)
}

// reader reads keys and collects their errors.
type reader struct {
	c    *config.Config
	errs []error
}

func (r *reader) add(err error) {
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

func (r *reader) text(key string) string {
	if v := r.c.Get(key, nil); v == nil || v == false {
		return ""
	}
	s, err := r.c.String(key, "")
	r.add(err)
	return s
}

func (r *reader) count(key string) int {
	n, err := r.c.Int(key, 0)
	if err == nil && (n < 0 || n > math.MaxInt32) {
		err = fmt.Errorf("worker: %s is %d: use a non-negative number", key, n)
	}
	r.add(err)
	return int(n)
}

func (r *reader) bytes(key string) int64 {
	if v := r.c.Get(key, nil); v == nil || v == false {
		return 0
	}
	n, err := r.c.Bytes(key, 0)
	r.add(err)
	return n
}

// fraction reads a threshold, which false disables in Dask.
func (r *reader) fraction(key string) float64 {
	v := r.c.Get(key, nil)
	if v == nil {
		return 0
	}
	if v == false {
		return -1
	}
	f, err := r.c.Float(key, 0)
	if err == nil && (f <= 0 || math.IsNaN(f) || f > 1e6) {
		err = fmt.Errorf("worker: %s is %v: use a fraction of the memory limit, such as 0.6, or false", key, f)
	}
	r.add(err)
	return f
}

func (r *reader) resources(key string) map[string]float64 {
	m, ok := r.c.Get(key, nil).(*config.Map)
	if !ok || m.Len() == 0 {
		return nil
	}
	out := map[string]float64{}
	for e := range m.All() {
		name, ok := e.Key.(string)
		if !ok {
			r.add(fmt.Errorf("worker: %s: resource name %v is not a string", key, e.Key))
			continue
		}
		switch v := e.Value.(type) {
		case int64:
			out[name] = float64(v)
		case float64:
			out[name] = v
		default:
			r.add(fmt.Errorf("worker: %s.%s is %v: use a number", key, name, e.Value))
		}
	}
	return out
}

// ParseResources parses the value of --resources: "GPU=2 MEM=10e9", separated by spaces or commas.
func ParseResources(text string) (map[string]float64, error) {
	out := map[string]float64{}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		name, value, ok := strings.Cut(part, "=")
		amount, err := strconv.ParseFloat(value, 64)
		if !ok || name == "" || err != nil || amount < 0 || math.IsInf(amount, 0) || math.IsNaN(amount) {
			return nil, fmt.Errorf("worker: resource %q: write NAME=AMOUNT, such as GPU=2", part)
		}
		out[name] = amount
	}
	return out, nil
}

// ParseMemoryLimit parses the value of --memory-limit as Dask does: "auto" is AutoMemory(threads), a fraction up to 1
// is that part of the memory of the machine, "0" and "none" mean no limit, any other value is a number of bytes such as
// "4 GiB".
func ParseMemoryLimit(text string, threads int) (int64, error) {
	total := SystemMemory()
	switch t := strings.ToLower(strings.TrimSpace(text)); t {
	case "", "auto":
		return AutoMemory(threads), nil
	case "0", "none", "false":
		return 0, nil
	default:
		if f, err := strconv.ParseFloat(t, 64); err == nil && f > 0 && f <= 1 {
			return int64(f * float64(total)), nil
		}
		n, err := config.ParseBytes(t)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("worker: memory limit %q: write auto, 0 for none, a fraction such as 0.5 or bytes "+
				"such as 4GiB", text)
		}
		if total > 0 {
			n = min(n, total)
		}
		return n, nil
	}
}

// AutoMemory returns Dask's default memory limit in bytes: the share of the memory of the machine, or of the container,
// that corresponds to threads of its processors.
func AutoMemory(threads int) int64 {
	share := min(1, float64(threads)/float64(runtime.NumCPU()))
	return int64(share * float64(SystemMemory()))
}

// SystemMemory returns the memory of the machine in bytes, or the limit of the control group if that is less; 0 if it
// is unknown.
func SystemMemory() int64 { return sysmem.Total() }
