package taskgraph

import (
	"fmt"
	"maps"
	"slices"

	"go.millstream.dev/internal/task/lifetrace"
	"go.millstream.dev/internal/wire/msgpack"
)

// Annotations are the requirements of a client for tasks, with the names of Dask.
type Annotations struct {
	// Workers are the addresses, names or hosts of the workers that may run the task; empty means all.
	Workers []string
	// AllowOtherWorkers allows other workers to run it if none of Workers is available.
	AllowOtherWorkers bool
	// Resources are the resources of its worker that the task uses while it runs.
	Resources map[string]float64
	// Priority is the priority: tasks with a higher priority run first. HasPriority reports whether it was set.
	Priority    float64
	HasPriority bool
	// Retries is how often a failed task is run again.
	Retries int
	// Timeout is how long the function may run, in seconds, before its context ends; 0 means unlimited. Dask has no
	// such annotation.
	Timeout float64
	// Trace is the trace context of the client as W3C traceparent, "" for none; see package lifetrace.
	Trace string
	// Raw is the whole map as msgpack, in a graph that was decoded: it is sent to the worker.
	Raw []byte
}

// IsZero reports whether no annotation is set.
func (a *Annotations) IsZero() bool {
	return a == nil || len(a.Workers) == 0 && !a.AllowOtherWorkers && len(a.Resources) == 0 && !a.HasPriority &&
		a.Retries == 0 && a.Timeout == 0 && a.Trace == ""
}

// Append appends the map as msgpack.
func (a *Annotations) Append(dst []byte) []byte {
	n := 0
	for _, there := range []bool{len(a.Workers) > 0, a.AllowOtherWorkers, len(a.Resources) > 0, a.HasPriority,
		a.Retries != 0, a.Timeout != 0, a.Trace != ""} {
		if there {
			n++
		}
	}
	dst = msgpack.AppendMapHeader(dst, n)
	if len(a.Workers) > 0 {
		dst = msgpack.AppendString(dst, "workers")
		dst = msgpack.AppendArrayHeader(dst, len(a.Workers))
		for _, w := range a.Workers {
			dst = msgpack.AppendString(dst, w)
		}
	}
	if a.AllowOtherWorkers {
		dst = msgpack.AppendString(dst, "allow_other_workers")
		dst = msgpack.AppendBool(dst, true)
	}
	if len(a.Resources) > 0 {
		dst = msgpack.AppendString(dst, "resources")
		dst = msgpack.AppendMapHeader(dst, len(a.Resources))
		for _, k := range slices.Sorted(maps.Keys(a.Resources)) {
			dst = msgpack.AppendString(dst, k)
			dst = msgpack.AppendFloat(dst, a.Resources[k])
		}
	}
	if a.HasPriority {
		dst = msgpack.AppendString(dst, "priority")
		dst = msgpack.AppendFloat(dst, a.Priority)
	}
	if a.Retries != 0 {
		dst = msgpack.AppendString(dst, "retries")
		dst = msgpack.AppendInt(dst, int64(a.Retries))
	}
	if a.Timeout != 0 {
		dst = msgpack.AppendString(dst, "timeout")
		dst = msgpack.AppendFloat(dst, a.Timeout)
	}
	if a.Trace != "" {
		dst = msgpack.AppendString(dst, lifetrace.Name)
		dst = msgpack.AppendString(dst, a.Trace)
	}
	return dst
}

// ReadAnnotations decodes a map of annotations; Raw borrows from the bytes of the reader.
func ReadAnnotations(r *msgpack.Reader) (Annotations, error) {
	var a Annotations
	from := r.Offset()
	n, err := r.ReadMapLen()
	if err != nil {
		return a, err
	}
	for range n {
		k, err := r.ReadName()
		if err != nil {
			return a, err
		}
		switch {
		case r.Kind() == msgpack.Nil:
			err = r.ReadNil()
		case string(k) == "workers":
			a.Workers, err = readNames(r)
		case string(k) == "allow_other_workers":
			a.AllowOtherWorkers, err = r.ReadBool()
		case string(k) == "resources":
			a.Resources, err = readResources(r)
		case string(k) == "priority":
			a.HasPriority = true
			a.Priority, err = r.ReadFloat()
		case string(k) == "retries":
			var retries int64
			if retries, err = r.ReadInt(); err == nil && (retries < 0 || retries > 1<<31) {
				err = fmt.Errorf("invalid number of retries %d", retries)
			}
			a.Retries = int(retries)
		case string(k) == "timeout":
			a.Timeout, err = r.ReadFloat()
		case string(k) == lifetrace.Name && r.Kind() == msgpack.Str:
			a.Trace, err = r.ReadString()
		default:
			err = r.Skip()
		}
		if err != nil {
			return a, fmt.Errorf("%.40s: %w", k, err)
		}
	}
	a.Raw = r.Since(from)
	return a, nil
}

// readNames decodes one name or a list of names.
func readNames(r *msgpack.Reader) ([]string, error) {
	if r.Kind() == msgpack.Str {
		s, err := r.ReadString()
		return []string{s}, err
	}
	n, err := r.ReadArrayLen()
	if err != nil {
		return nil, err
	}
	var out []string
	for range n {
		s, err := r.ReadString()
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func readResources(r *msgpack.Reader) (map[string]float64, error) {
	n, err := r.ReadMapLen()
	if err != nil {
		return nil, err
	}
	out := make(map[string]float64)
	for range n {
		k, err := r.ReadString()
		if err != nil {
			return nil, err
		}
		if out[k], err = r.ReadFloat(); err != nil {
			return nil, err
		}
		if !(out[k] >= 0) {
			return nil, fmt.Errorf("%g of resource %.40q", out[k], k)
		}
	}
	return out, nil
}
