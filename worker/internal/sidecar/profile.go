package sidecar

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// profileTime bounds the requests for profiles: code of users may keep the process busy.
const profileTime = 10 * time.Second

// ask calls an op of the process and returns its reply; nil without a process.
func (s *Sidecar) ask(ctx context.Context, op string, body any) ([]byte, error) {
	inc := s.running()
	if inc == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, profileTime)
	defer cancel()
	reply, err := inc.p.Call(ctx, op, body, nil)
	if err != nil {
		return nil, fmt.Errorf("worker: %s of the Python process of %s: %w", op, s.w.Address(), err)
	}
	return reply.Body, nil
}

// AddProfile adds the selected samples of Python tasks to a tree. A process that has died took its samples with it.
func (s *Sidecar) AddProfile(ctx context.Context, t *profile.Tree, q profile.Query) error {
	m := msgpack.MapOf("start", optional(q.Start), "stop", optional(q.Stop), "key", nil)
	if q.Key != nil {
		m.Set("key", *q.Key)
	}
	body, err := s.ask(ctx, "profile", m)
	if err != nil || body == nil {
		return err
	}
	return t.Read(body)
}

func optional(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

const (
	maxProfileCycles  = 10_000
	maxCyclePrefixes  = 1001
	maxCallStackLines = 10_000
)

// ProfileCounts returns the numbers of samples of Python tasks by cycle, oldest first.
func (s *Sidecar) ProfileCounts(ctx context.Context, start float64, stop *float64) ([]profile.Counts, error) {
	body, err := s.ask(ctx, "counts", msgpack.MapOf("start", start, "stop", optional(stop)))
	if err != nil || body == nil {
		return nil, err
	}
	return readCounts(body)
}

// readCounts reads [(time, {prefix: count}), …].
func readCounts(body []byte) ([]profile.Counts, error) {
	r := msgpack.NewReader(body)
	n, err := r.ReadArrayLen()
	if err == nil && n > maxProfileCycles {
		err = fmt.Errorf("%d cycles, at most %d are kept", n, maxProfileCycles)
	}
	var out []profile.Counts
	for ; err == nil && n > 0; n-- {
		var c profile.Counts
		if c, err = readCycle(&r); err == nil {
			out = append(out, c)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("worker: profile of the Python process: %w", err)
	}
	return out, nil
}

func readCycle(r *msgpack.Reader) (c profile.Counts, err error) {
	n, err := r.ReadArrayLen()
	if err == nil && n != 2 {
		err = fmt.Errorf("cycle of %d values, want 2", n)
	}
	if err != nil {
		return c, err
	}
	if c.Time, err = r.ReadFloat(); err != nil {
		return c, err
	}
	if n, err = r.ReadMapLen(); err == nil && n > maxCyclePrefixes {
		err = fmt.Errorf("%d prefixes in a cycle, at most %d are kept", n, maxCyclePrefixes)
	}
	c.Keys = map[string]int64{}
	for ; err == nil && n > 0; n-- {
		var key string
		var count int64
		if key, err = r.ReadString(); err == nil {
			count, err = r.ReadInt()
		}
		if err == nil {
			c.Keys[key] = max(0, min(count, 1<<40))
			c.Count += c.Keys[key]
		}
	}
	return c, err
}

// CallStacks adds the call stacks of running Python tasks, {key: [line, …]}, of the wanted keys or of all.
func (s *Sidecar) CallStacks(ctx context.Context, wanted []task.Key) (msgpack.Map, error) {
	var keys any
	if wanted != nil {
		list := make([]any, len(wanted))
		for i, k := range wanted {
			list[i] = k.Raw()
		}
		keys = list
	}
	body, err := s.ask(ctx, "stacks", keys)
	if err != nil || body == nil {
		return nil, err
	}
	out, err := readStacks(body)
	if err != nil {
		return nil, fmt.Errorf("worker: call stacks of the Python process: %w", err)
	}
	return out, nil
}

// readStacks reads [(key, [line, …]), …].
func readStacks(body []byte) (msgpack.Map, error) {
	r := msgpack.NewReader(body)
	n, err := r.ReadArrayLen()
	out := msgpack.Map{}
	for ; err == nil && n > 0; n-- {
		var size int
		if size, err = r.ReadArrayLen(); err == nil && size != 2 {
			err = fmt.Errorf("call stack of %d values, want 2", size)
		}
		if err != nil {
			break
		}
		var raw []byte
		if raw, err = r.ReadKey(nil); err != nil {
			break
		}
		key := task.Key(raw)
		if size, err = r.ReadArrayLen(); err != nil {
			break
		}
		lines := []any{}
		for ; err == nil && size > 0; size-- {
			var line string
			if line, err = r.ReadString(); err == nil && len(lines) < maxCallStackLines {
				lines = append(lines, line)
			}
		}
		out = append(out, msgpack.Pair{Key: key.Value(), Value: lines})
	}
	return out, err
}
