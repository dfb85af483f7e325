package sim

import (
	"time"

	sched "go.millstream.dev/internal/engine/scheduler/state"
)

// faulty reports whether the time of faults is not over.
func (w *world) faulty() bool { return w.clock.now < int64(w.cfg.Faults.Until) }

// poisson calls f at random times, rate times per second, until the time of faults is over.
func (w *world) poisson(rate float64, f func()) {
	if rate <= 0 {
		return
	}
	wait := time.Duration(w.rnd.ExpFloat64() / rate * float64(time.Second))
	if w.clock.now+int64(wait) >= int64(w.cfg.Faults.Until) {
		return
	}
	w.clock.after(wait, func() {
		if !w.over && w.faulty() {
			f()
			w.poisson(rate, f)
		}
	})
}

// randomProc returns a random running worker.
func (w *world) randomProc() *proc {
	p := w.procs[w.rnd.IntN(len(w.procs))]
	if !p.alive {
		return nil
	}
	return p
}

func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rnd.Int64N(int64(d) + 1))
}

// revive restarts a worker after a time.
func (w *world) revive(p *proc, after time.Duration) {
	life := p.life
	w.clock.after(after, func() {
		if !p.alive && p.life == life && !w.over {
			p.boot()
		}
	})
}

// startFaults starts the faults.
func (w *world) startFaults() {
	f := &w.cfg.Faults
	on := func(rate float64, what func(p *proc)) {
		w.poisson(rate, func() {
			if p := w.randomProc(); p != nil {
				what(p)
			}
		})
	}
	on(f.Kill, func(p *proc) {
		w.report.Kills++
		p.exit(w.rnd.IntN(2) == 0)
		w.revive(p, w.upTo(5*time.Second))
	})
	on(f.Break, func(p *proc) {
		if p.conn == nil {
			return
		}
		w.trace("the stream of %s breaks", p.name)
		w.report.Breaks++
		// Each end detects it at a different time; messages in flight are lost.
		c := p.conn
		c.up.end(true, w.upTo(2*time.Second))
		c.beat.end(true, w.upTo(2*time.Second))
		c.down.end(true, w.upTo(2*time.Second))
		c.beatAnswer.end(true, w.upTo(2*time.Second))
	})
	on(f.Partition, w.partition)
	on(f.Freeze, func(p *proc) {
		w.report.Freezes++
		p.frozen = w.clock.now + int64(w.upTo(f.FreezeFor))
		w.trace("%s freezes until %v", p.name, time.Duration(p.frozen))
	})
	on(f.Slow, func(p *proc) {
		p.slow = 1 + 20*w.rnd.Float64()
		life := p.life
		w.clock.after(w.upTo(10*time.Second), func() {
			if p.life == life {
				p.slow = 1
			}
		})
	})
	on(f.Pause, func(p *proc) {
		if p.paused || p.frozen > w.clock.now {
			return
		}
		p.pause(true)
		p.later(w.upTo(5*time.Second), func() {
			if p.paused && !p.closing {
				p.pause(false)
			}
		})
	})
	on(f.LoseHeartbeats, func(p *proc) {
		w.trace("heartbeats of %s get lost", p.name)
		p.mute = w.clock.now + 2*int64(heartbeatTTL)
	})
	on(f.Stall, func(p *proc) {
		if c := p.conn; c != nil {
			l := []*link{c.up, c.down, c.beat}[w.rnd.IntN(3)]
			l.block(w.clock.now + int64(w.upTo(f.PartitionFor)))
		}
	})
	w.poisson(f.RestartScheduler, func() {
		if !w.head.up {
			return
		}
		w.report.Restarts++
		w.head.kill()
		w.clock.after(w.upTo(5*time.Second), func() {
			if !w.over {
				w.trace("scheduler restarts")
				w.head.start()
			}
		})
	})
	w.poisson(f.Cancel, func() { w.clients[w.rnd.IntN(len(w.clients))].cancel() })
	w.startRequests()
}

// partition disconnects a worker from the scheduler, from its peers or from both.
func (w *world) partition(p *proc) {
	until := w.clock.now + int64(w.upTo(w.cfg.Faults.PartitionFor))
	whom := w.rnd.IntN(3)
	w.report.Partitions++
	w.trace("%s is cut off (%d) until %v", p.name, whom, time.Duration(until))
	if whom != 0 {
		p.cutPeers = max(p.cutPeers, until)
	}
	if whom != 1 {
		p.cutScheduler = max(p.cutScheduler, until)
		if c := p.conn; c != nil {
			for _, l := range []*link{c.up, c.down, c.beat, c.beatAnswer} {
				l.block(until)
			}
		}
	}
}

// startRequests starts the requests of administrators.
func (w *world) startRequests() {
	f, h := &w.cfg.Faults, w.head
	w.poisson(f.Retire, func() {
		if p := w.randomProc(); h.up && p != nil && p.conn != nil && p.conn.id != sched.NoWorker {
			id := p.conn.id
			h.ask("retire "+p.name, func(n uint64) sched.Event {
				return &sched.RetireWorkers{Request: n, Workers: []sched.WorkerID{id}, Close: true,
					Remove: w.rnd.IntN(2) == 0}
			})
		}
	})
	w.poisson(f.Replicate, func() {
		if h.up && len(w.nodes) > 0 {
			keys, n := h.someKeys(5), w.rnd.IntN(3)
			h.ask("replicate", func(number uint64) sched.Event {
				return &sched.Replicate{Request: number, Keys: keys, N: n, Delete: w.rnd.IntN(2) == 0, Keep: n > 1}
			})
		}
	})
	w.poisson(f.Reduce, func() {
		if h.up {
			h.apply(&sched.ReduceReplicas{})
		}
	})
	w.poisson(f.Rebalance, func() {
		if h.up {
			h.ask("rebalance", func(n uint64) sched.Event { return &sched.Rebalance{Request: n} })
		}
	})
}
