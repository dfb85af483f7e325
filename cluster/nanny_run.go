package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ending is how one process of a worker ended.
type ending struct {
	ready    bool            // the worker had registered
	lived    time.Duration   // since then
	stopped  bool            // the nanny was asked to end it
	again    []chan struct{} // callers that asked for a replacement
	farewell string          // eventClosed, eventLost or eventRestart; "" is a death
	err      error           // cause of a death or of eventLost
}

// run starts process after process until one ends on purpose, the nanny is stopped or gives up.
func (n *Nanny) run() {
	failures, everReady := 0, false
	for {
		end := n.once()
		everReady = everReady || end.ready
		switch {
		case end.stopped:
			n.finish(nil)
			return
		case len(end.again) > 0:
			failures = 0
			n.cfg.Logger.Info("worker is replaced by another, as it was asked for")
			n.replaced(end.again)
			continue
		case n.final.Load():
			n.cfg.Logger.Info("worker has ended, and is not to be replaced")
			n.finish(nil)
			return
		case end.farewell == eventClosed:
			n.cfg.Logger.Info("worker has ended")
			n.finish(nil)
			return
		case end.farewell == eventLost:
			n.finish(fmt.Errorf("cluster: %s: %w", n.title(), end.err))
			return
		case end.farewell == eventRestart:
			failures = 0
			n.cfg.Logger.Info("worker asks for another one in its place")
		case end.ready && end.lived >= n.cfg.settle:
			failures = 0
			n.cfg.Logger.Warn("worker has died, starting another", "cause", end.err)
		default:
			failures++
			if n.tooMany(failures, everReady) {
				err := fmt.Errorf("cluster: %s: given up after %d processes: %w", n.title(), failures, end.err)
				n.cfg.Logger.Error("worker does not stay alive, given up", "processes", failures, "cause", end.err)
				n.finish(err)
				return
			}
			what := "worker did not start, trying again"
			if end.ready {
				what = "worker has died young, starting another"
			}
			n.cfg.Logger.Warn(what, "failures", failures, "cause", end.err)
		}
		n.update(func(i *WorkerInfo) { i.State, i.PID, i.Address, i.DataAddresses = Restarting, 0, "", nil })
		if !n.rest(failures) {
			n.finish(nil)
			return
		}
	}
}

// firstFailures is how many processes may fail before the first that works: what is wrong
// then is usually wrong for good, such as an address.
const firstFailures = 3

func (n *Nanny) tooMany(failures int, everReady bool) bool {
	limit := n.cfg.MaxFailures
	if limit < 0 {
		return false
	}
	if !everReady {
		limit = min(limit, firstFailures)
	}
	return failures >= limit
}

// rest pauses before the next process: not at all after one that was good, then 100 ms,
// doubled each time up to 10 s. It reports whether there is to be a next one.
func (n *Nanny) rest(failures int) bool {
	var pause time.Duration
	if failures > 0 {
		pause = min(n.cfg.pause<<min(failures-1, 10), 100*n.cfg.pause)
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return true
		case down := <-n.redo:
			close(down) // there is none, and the next one comes anyway
		case <-n.stop:
			return false
		case <-n.kill:
			return false
		}
	}
}

// once runs one process from its start to its end.
func (n *Nanny) once() ending {
	spec := n.spec
	spec.DeathToken = rand.Text()
	p, err := n.spawn(spec)
	if err != nil {
		return ending{err: err}
	}
	n.update(func(i *WorkerInfo) { i.State, i.PID, i.Starts = Starting, p.pid(), i.Starts+1 })
	end := n.watch(p)
	err = p.wait()
	last := p.output.end()
	if end.err == nil {
		end.err = exitCause(p.cmd.ProcessState, err)
		if last != "" {
			end.err = fmt.Errorf("%w; last line of standard error: %s", end.err, last)
		}
	}
	if end.farewell == "" && !end.stopped && len(end.again) == 0 {
		n.reportDeath(spec.DeathToken, end.err)
	}
	return end
}

// watch returns when the process has ended, having killed it where necessary. The error of the result is
// nil where only the exit status has the cause.
func (n *Nanny) watch(p *process) (end ending) {
	start := time.NewTimer(n.cfg.StartTimeout)
	defer start.Stop()
	if n.spec.DeathTimeout > 0 || n.cfg.StartTimeout < 0 {
		start.Stop()
	}
	memory := time.NewTicker(n.cfg.Interval)
	defer memory.Stop()
	limit := int64(-1)
	if n.spec.MemoryLimit > 0 && n.cfg.Terminate > 0 {
		limit = int64(n.cfg.Terminate * float64(n.spec.MemoryLimit))
	} else {
		memory.Stop()
	}
	var ready time.Time
	var overdue <-chan time.Time // when a process that is to be replaced has had time enough
	events, stop := p.events, n.stop
	defer func() {
		if end.ready = !ready.IsZero(); end.ready {
			end.lived = time.Since(ready)
		}
	}()
	handle := func(e event) {
		if e.Event != eventReady {
			end.observe(e)
			return
		}
		ready = time.Now()
		start.Stop()
		n.update(func(i *WorkerInfo) {
			i.State, i.Address, i.DataAddresses, i.HTTP = Running, e.Address, e.DataAddresses, e.HTTP
		})
	}
	for {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil // the process is about to end
				continue
			}
			handle(e)
		case <-p.child.Done:
			if events != nil { // a process that dies at once may have been ready before
				for e := range events {
					handle(e)
				}
			}
			return end
		case op := <-stop:
			end.stopped, stop = true, nil
			p.order(op)
		case down := <-n.redo:
			if end.again = append(end.again, down); overdue == nil {
				p.order("close")
				t := time.NewTimer(killTime)
				defer t.Stop()
				overdue = t.C
			}
		case <-overdue:
			p.kill()
			return end
		case <-n.kill:
			end.stopped = true
			p.kill()
			return end
		case <-start.C:
			p.kill()
			end.die(fmt.Errorf("not registered with %s after %v", n.spec.Scheduler, n.cfg.StartTimeout))
			return end
		case <-memory.C:
			if used, err := residentMemory(p.pid()); err == nil && used > limit {
				p.kill()
				end.die(fmt.Errorf("process of %d MiB exceeded %.0f%% of its memory limit of %d MiB", used>>20,
					100*n.cfg.Terminate, n.spec.MemoryLimit>>20))
				return end
			}
		}
	}
}

// observe records what the process reports about its end.
func (e *ending) observe(ev event) {
	switch ev.Event {
	case eventClosed, eventRestart:
		e.farewell, e.err = ev.Event, nil
	case eventLost:
		e.farewell, e.err = ev.Event, errors.New(ev.Error)
	case eventFailed:
		e.die(errors.New(ev.Error))
	}
}

// die makes it a death, whatever the process reported before.
func (e *ending) die(cause error) { e.farewell, e.err = "", cause }

// exitCause describes the exit status of a process; err is the error of waiting for one that has none.
func exitCause(s *os.ProcessState, err error) error {
	if s == nil {
		return err
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return fmt.Errorf("process ended by signal %d (%v)", int(w.Signal()), w.Signal())
	}
	return fmt.Errorf("process ended with exit code %d", s.ExitCode())
}
