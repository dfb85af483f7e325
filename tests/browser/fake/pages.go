package fake

import (
	"fmt"
	"math"
)

type object = map[string]any

// pages returns the JSON values of the pages by name.
func pages(h *History) map[string]any {
	n := len(h.Rows) / 5
	return map[string]any{
		"workers.json":   object{"workers": workers(n)},
		"progress.json":  object{"prefixes": progress()},
		"bandwidth.json": bandwidth(n),
		"graph.json":     graph(),
		"cliques.json":   object{"cliques": cliques(n)},
		"series.json":    object{"series": series(h)},
		"failures.json":  object{"failures": failures(h)},
		"story.json":     story(h),
		"why.json":       object{"findings": why(h)},
		"profile.json":   profile(),
		"logs.json": object{"lines": []object{
			{"time": 1000000, "level": "info", "text": "worker started threads=2"},
			{"time": 2500000, "level": "warn", "text": "event loop stalled for=1.2s"},
			{"time": 4500000, "level": "error", "text": "task failed key=inc-1 error=\"division by zero\""}}},
		"stacks.json": object{"stacks": []object{{"key": "('sum-00beef0f', 0, 12)",
			"frames": []string{"main.Sum (sum.go:12)", "go.millstream.dev/internal/task.call (call.go:88)"}}}},
	}
}

func workers(n int) []object {
	var out []object
	for w := range n {
		limit := int64(16 << 30)
		managed := limit * int64(20+w*7%50) / 100
		var device any
		if w%2 == 0 {
			device = object{"used": int64(20+w) << 30, "limit": int64(72) << 30, "pinned": 2 << 30,
				"total":       int64(80) << 30,
				"utilization": 35 + w*5}
		}
		status := "running"
		if w == 3 {
			status = "paused"
		}
		out = append(out, object{"address": Address(w), "name": fmt.Sprintf("worker-%d", w),
			"host":   fmt.Sprintf("host-%d", w/4),
			"status": status, "threads": 2, "cpu": 30 + float64(w*23%170),
			"memory": object{"managed": managed, "unmanaged": 1200 << 20, "spilled": int64(w) << 28, "limit": limit,
				"rss": managed + 1200<<20},
			"device": device, "processing": w*3 + 1, "ready": w, "executing": w % 3, "held": 100 + w*17,
			"last_seen":  59_500_000,
			"transports": []string{"rc_mlx5", "cuda_ipc"}, "version": "1.0", "dashboard": ""})
	}
	return out
}

func progress() []object {
	var out []object
	for i, p := range prefixes {
		done := 400 - i*35
		out = append(out, object{"name": p, "waiting": i * 20, "queued": i * 3, "processing": 4 + i, "memory": done,
			"erred": i % 3, "released": 100 + i*9, "forgotten": i * 2, "seconds": 30.5 / float64(i+1),
			"bytes": int64(done) << 20})
	}
	return out
}

func bandwidth(n int) object {
	addresses, pairs := []string{}, []object{}
	for a := range n {
		addresses = append(addresses, Address(a))
		for b := range n {
			if a == b || (a*7+b)%6 == 0 {
				continue
			}
			t := transportOf(a, b)
			rate := map[string]float64{"cuda_ipc": 180e9, "sysv": 14e9, "rc_mlx5": 22e9,
				"tcp": 1.1e9}[t] * (0.4 + float64((a*5+b*3)%7)/10)
			reason := ""
			if t == "tcp" {
				reason = "tcp, because mlx5_0 of the peer is down; bring the port up, or set UCX_NET_DEVICES"
			}
			pairs = append(pairs, object{"from": Address(a), "to": Address(b), "transport": t,
				"bytes":   int64(rate * 2),
				"seconds": 2.0, "rate": rate, "count": 10 + a + b, "reason": reason})
		}
	}
	return object{"workers": addresses, "pairs": pairs, "transports": object{}}
}

func graph() object {
	nodes, edges := []object{}, [][3]int{}
	states := []string{"memory", "memory", "processing", "waiting"}
	for layer := range 4 {
		for i := range 16 >> layer {
			nodes = append(nodes, object{"id": fmt.Sprintf("n%d-%d", layer, i), "label": fmt.Sprintf("%s-%d",
				prefixes[layer], i),
				"state": states[layer], "tasks": 1})
			if layer > 0 {
				from := len(nodes) - 1 - i - 32>>layer
				edges = append(edges, [3]int{from + 2*i, len(nodes) - 1, 1}, [3]int{from + 2*i + 1,
					len(nodes) - 1, 1})
			}
		}
	}
	return object{"grouped": false, "nodes": nodes, "edges": edges}
}

func cliques(n int) []object {
	ranks := []object{}
	for w := range min(n, 8) {
		ranks = append(ranks, object{"rank": w, "worker": Address(w), "host": fmt.Sprintf("host-%d", w/4)})
	}
	return []object{{"id": "c1", "name": "kmeans", "state": "open", "ranks": ranks, "collectives": []object{
		{"op": "all-reduce", "count": 120, "bytes": int64(9) << 30, "seconds": 3.2, "slowest": object{"rank": 3,
			"seconds": 0.9}},
		{"op": "broadcast", "count": 4, "bytes": 1 << 20, "seconds": 0.02, "slowest": object{"rank": 1,
			"seconds": 0.01}}}}}
}

func series(h *History) object {
	out := object{}
	for _, name := range []string{"memory.managed", "memory.unmanaged", "memory.spilled", "cpu", "tasks/s"} {
		var points [][2]float64
		for i := range 240 {
			v := 1 + 0.6*math.Sin(float64(i)/18+float64(len(name))) + float64(i)/200
			switch {
			case name == "cpu":
				v *= 200
			case name == "tasks/s":
				v *= 900
			default:
				v *= 3 << 30
			}
			points = append(points, [2]float64{float64(i) * 250e3, v})
		}
		out[name] = points
	}
	return out
}

func failures(h *History) []object {
	return []object{
		{"time": 12_300_000, "kind": "worker-lost", "worker": Address(2), "key": "",
			"cause": "connection reset by peer",
			"text":  "14 results are computed again"},
		{"time": 14_100_000, "kind": "task-erred", "worker": Address(1), "key": "('sum-00beef0f', 1, 3)",
			"cause": "division by zero",
			"text":  "sum.py, line 12"}}
}

func story(h *History) object {
	return object{"key": "('sum-00beef0f', 1, 3)", "events": []object{
		{"time": 1_000_000, "from": "released", "to": "waiting", "stimulus": "update-graph-1", "worker": ""},
		{"time": 1_250_000, "from": "waiting", "to": "processing", "stimulus": "task-finished-7",
			"worker": Address(1)},
		{"time": 14_100_000, "from": "processing", "to": "erred", "stimulus": "task-erred-9", "worker": Address(1)}}}
}

func why(h *History) []object {
	return []object{
		{"kind": "critical-path", "title": "The critical path takes 41 s of 60 s",
			"text":  "It has 64 tasks; kmeans-assign has most of its time.",
			"start": 5_000_000, "stop": 9_000_000, "rows": []int{0, 1}},
		{"kind": "transfer", "title": "The largest transfer took 0.9 s", "text": "1.2 GiB over tcp at 1.3 GB/s.",
			"start": 20_000_000,
			"stop":  20_900_000, "rows": []int{12}},
		{"kind": "balance", "title": "worker-3 is busy twice as long as the others", "text": "38 s against 19 s.",
			"start": 0,
			"stop":  60_000_000, "rows": []int{15, 16}}}
}

func profile() object {
	leaf := func(name string, n int) object {
		return object{"name": name, "file": name + ".go", "line": 10, "count": n}
	}
	return object{"name": "all", "count": 1000, "children": []object{
		{"name": "run", "file": "run.go", "line": 40, "count": 900, "children": []object{
			{"name": "assign", "file": "kmeans.go", "line": 80, "count": 600,
				"children": []object{leaf("distance", 480), leaf("append", 100)}},
			{"name": "decode", "file": "frame.go", "line": 12, "count": 280, "children": []object{leaf("memmove",
				200)}}}},
		leaf("gc", 90)}}
}
