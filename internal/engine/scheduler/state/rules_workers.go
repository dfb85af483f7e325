package state

import (
	"math"
	"slices"
)

var workerRules = []Rule{
	{Name: "worker-index", Statement: "A worker is found by its id, address and name.", whole: func(c *checker) {
		ws, n := &c.s.workers, 0
		for id, w := range ws.all {
			if w != nil {
				n++
				found := w.id == WorkerID(id) && ws.byAddress[w.address] == w && ws.byName[w.name] == w && !w.removed
				c.onWorker(w, found, "not found")
			}
		}
		c.want(len(ws.byAddress) == n && len(ws.byName) == n,
			"%d workers have %d addresses and %d names", n, len(ws.byAddress), len(ws.byName))
	}},
	{Name: "worker-totals", Statement: "Workers, those that run and their threads are counted.",
		whole: func(c *checker) {
			ws := &c.s.workers
			all, running, threads := 0, 0, 0
			for w := range c.s.Workers() {
				all++
				threads += w.threads
				if w.running() {
					running++
				}
			}
			c.want(all == ws.n && running == ws.running && threads == ws.threads,
				"%d workers, %d running, %d threads; counted %d, %d, %d", all, running, threads, ws.n, ws.running,
				ws.threads)
		}},
	{Name: "running-place", Statement: "A worker has a place in the heap of its pool while it runs.",
		worker: func(c *checker, w *Worker) {
			c.onWorker(w, (w.place >= 0) == w.running(), "is %s and has place %d in its pool", w.status, w.place)
		}},
	{Name: "worker-lists", Statement: "A worker's lists have the tasks that it processes.", worker: func(c *checker,
		w *Worker) {
		for l := range w.lists {
			n := 0
			for t := w.lists[l].head; t != nil; t = t.next {
				c.of(t, t.worker == w && int(t.list) == l, "is not processed by %s from list %d", w.address, l)
				n++
			}
			c.onWorker(w, n == w.lists[l].n, "has %d tasks in list %d, counted %d", n, l, w.lists[l].n)
		}
	}},
	{Name: "worker-processing", Statement: "Tasks of a worker are counted, and the long-running ones among them.",
		worker: func(c *checker, w *Worker) {
			n, seceded := 0, 0
			for t := range w.Processing() {
				n++
				if t.seceded {
					seceded++
				}
			}
			c.onWorker(w, n == w.processing && seceded == w.seceded,
				"processes %d (%d long-running), counted %d (%d)", n, seceded, w.processing, w.seceded)
		}},
	{Name: "worker-prefixes", Statement: "Tasks of a worker are counted by prefix, beyond a limit by estimates.",
		worker: func(c *checker, w *Worker) {
			others := 0
			counts := map[*Prefix]int{}
			for t := range w.Processing() {
				switch {
				case t.seceded:
				case t.other:
					others++
				default:
					counts[t.group.prefix]++
				}
			}
			c.onWorker(w, others == w.others, "counts %d by estimate, has %d", w.others, others)
			c.onWorker(w, len(counts) == len(w.counts), "processes %d prefixes, counted %d", len(counts), len(w.counts))
			for _, n := range w.counts {
				c.onWorker(w, counts[n.p] == n.n, "processes %d of %s, counted %d", counts[n.p], n.p.name, n.n)
			}
		}},
	{Name: "prefix-processing", Statement: "Prefixes of which tasks are processing are listed and counted.",
		whole: func(c *checker) {
			counts := map[*Prefix]int{}
			for w := range c.s.Workers() {
				for t := range w.Processing() {
					if !t.seceded {
						counts[t.group.prefix]++
					}
				}
			}
			list := c.s.ledger.processing
			c.want(len(counts) == len(list), "%d prefixes are processing, %d are listed", len(counts), len(list))
			for i, p := range list {
				c.want(p.place == i && p.processing == counts[p],
					"prefix %s: %d tasks are processing, counted %d", p.name, counts[p], p.processing)
			}
		}},
	{Name: "resource-use", Statement: "The tasks that a worker processes use its resources.", worker: func(c *checker,
		w *Worker) {
		used := make([]float64, len(w.used))
		for t := range w.Processing() {
			if t.notes == nil {
				continue
			}
			for _, r := range t.notes.Resources {
				for i := range w.resources {
					if w.resources[i].Name == r.Name {
						used[i] += r.Amount
					}
				}
			}
		}
		for i := range used {
			c.onWorker(w, math.Abs(used[i]-w.used[i]) < 1e-9,
				"has %g of %s in use, counted %g", used[i], w.resources[i].Name, w.used[i])
		}
	}},
	{Name: "fetch-needs", Statement: "A worker counts the tasks for which it has yet to fetch a dependency.",
		worker: func(c *checker, w *Worker) {
			needs := map[*Task]int32{}
			for t := range w.Processing() {
				for _, e := range t.deps {
					if !w.holdsTask(e.t) {
						needs[e.t]++
					}
				}
			}
			for t, n := range w.needs {
				// The count may be lower: a replica that existed when a task was assigned may have been lost.
				c.of(t, 0 < n.tasks && n.tasks <= needs[t],
					"is needed by %d tasks on %s, counted %d", needs[t], w.address, n.tasks)
			}
		}},
	{Name: "fetch-bytes", Statement: "The bytes that workers have yet to fetch are counted.", whole: func(c *checker) {
		var total int64
		for w := range c.s.Workers() {
			var net int64
			for _, n := range w.needs {
				net += n.nbytes
			}
			c.onWorker(w, net == w.netBytes, "fetches %d bytes, counted %d", net, w.netBytes)
			total += net
		}
		c.want(total == c.s.ledger.netBytes, "workers fetch %d bytes, counted %d", total, c.s.ledger.netBytes)
	}},
	{Name: "worker-holds", Statement: "The tasks that a worker holds are known and in memory.", worker: func(c *checker,
		w *Worker) {
		for _, h := range w.holds {
			c.of(h.t, c.s.tasks.Get(h.t.key) == h.t && h.t.state == Memory, "is held by %s", w.address)
		}
	}},
	{Name: "worker-bytes", Statement: "The bytes that a worker holds are counted.", worker: func(c *checker,
		w *Worker) {
		var nbytes int64
		for _, h := range w.holds {
			nbytes += c.s.ledger.size(h.t)
		}
		c.onWorker(w, nbytes == w.nbytes, "holds %d bytes, counted %d", nbytes, w.nbytes)
	}},
	{Name: "worker-actors", Statement: "The actors that a worker makes or holds are counted.",
		worker: func(c *checker, w *Worker) {
			n := 0
			for t := range w.Processing() {
				if t.actor {
					n++
				}
			}
			for _, h := range w.holds {
				if h.t.actor {
					n++
				}
			}
			c.onWorker(w, n == w.actors, "has %d actors, counted %d", n, w.actors)
		}},
	{Name: "worker-load", Statement: "The load of a worker is its tasks per thread, without long-running ones.",
		worker: func(c *checker, w *Worker) {
			c.onWorker(w, w.load == float64(w.active())/float64(w.threads), "has the load %g", w.load)
		}},
}

var poolRules = []Rule{
	{Name: "pool-list", Statement: "Pools are listed.", whole: func(c *checker) {
		ps := &c.s.pools
		c.want(len(ps.byKey) == len(ps.list), "%d pools, %d listed", len(ps.byKey), len(ps.list))
	}},
	{Name: "pool-tasks", Statement: "The tasks of a pool are counted.", whole: func(c *checker) {
		tasks := map[*pool]int{}
		for _, t := range c.tasks {
			tasks[t.pool]++
		}
		for _, p := range c.s.pools.all() {
			c.want(p.tasks == tasks[p], "pool %q has %d tasks, counted %d", p.registry, tasks[p], p.tasks)
		}
	}},
	{Name: "pool-links", Statement: "Pools that run tasks of each other refer to each other.", pool: func(c *checker,
		p *pool) {
		for _, q := range c.s.pools.all() {
			by := slices.Contains(p.by, q)
			c.want(by == q.runs(p) && by == slices.Contains(q.takes, p),
				"pools %v and %v do not refer to each other", p.poolKey, q.poolKey)
		}
	}},
	{Name: "pool-workers", Statement: "The workers of a pool and their threads are counted.", pool: func(c *checker,
		p *pool) {
		n, threads := 0, 0
		for w := range c.s.Workers() {
			if w.pool == p {
				n++
				threads += w.threads
			}
		}
		c.want(n == p.workers && threads == p.threads, "pool %q has %d workers with %d threads, counted %d and %d",
			p.registry, n, threads, p.workers, p.threads)
	}},
	{Name: "pool-heap", Statement: "The running workers of a pool are a heap: the one with the least load first.",
		pool: func(c *checker, p *pool) {
			for i, w := range p.heap {
				c.onWorker(w, int(w.place) == i && w.pool == p && w.running(), "is at place %d of pool %q", i,
					p.registry)
				c.want(i == 0 || !w.before(p.heap[(i-1)/2]), "pool %q is not a heap at %d", p.registry, i)
			}
		}},
	{Name: "queue-members", Statement: "Queued tasks are in the queue of their pool, and counted.",
		whole: func(c *checker) {
			queued := 0
			for _, p := range c.s.pools.all() {
				n := 0
				p.queue.each(func(t *Task) {
					n++
					c.of(t, t.state == Queued && t.pool == p, "is in the queue of pool %q", p.registry)
				})
				c.want(n == p.queue.n, "the queue of pool %q has %d tasks, counted %d", p.registry, n, p.queue.n)
				queued += n
			}
			c.want(queued == c.s.counts[Queued], "%d tasks are in queues, counted %d", queued, c.s.counts[Queued])
		}},
	{Name: "queue-order", Statement: "The first task of a queue has the highest priority.", pool: func(c *checker,
		p *pool) {
		p.queue.each(func(t *Task) {
			c.of(t, t.prio.Compare(p.queue.peek().prio) >= 0, "goes before the first of its queue")
		})
	}},
	{Name: "queue-slot", Statement: "No task is queued while a worker that may run it has a slot.",
		pool: func(c *checker, p *pool) {
			if t := p.next(); t != nil && len(p.heap) > 0 && !c.s.held {
				base, _ := slotsFor(c.s, p.heap[0], t.group.prefix)
				c.of(t, p.heap[0].active() >= base, "is queued although %s has a slot", p.heap[0].address)
			}
		}},
}
