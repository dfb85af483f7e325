package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ending describes how a worker process ended.
type ending struct {
	ready   bool            // the worker had registered
	lived   time.Duration   // time since the registration
	stopped bool            // by an order to the nanny
	again   []chan struct{} // callers that requested a replacement
	final   string          // eventClosed, eventLost or eventRestart; "" means a crash
	err     error           // cause of a crash or of eventLost
}

// run starts one process after the other until one ends on purpose, or the nanny is stopped or gives up.
func (n *Nanny) run() {
	if ok, err := n.awaitPlugins(); !ok {
		n.finish(err)
		return
	}
	failures, everReady := 0, false
	for {
		end := n.runProcess()
		everReady = everReady || end.ready
		switch {
		case end.stopped:
			n.finish(nil)
			return
		case len(end.again) > 0:
			failures = 0
			n.cfg.Logger.Info("worker replaced on request")
			n.notifyReplaced(end.again)
			continue
		case n.final.Load():
			n.cfg.Logger.Info("worker ended and will not be replaced")
			n.finish(nil)
			return
		case end.final == eventClosed:
			n.cfg.Logger.Info("worker ended")
			n.finish(nil)
			return
		case end.final == eventLost:
			n.finish(fmt.Errorf("cluster: %s: %w", n.title(), end.err))
			return
		case end.final == eventRestart:
			failures = 0
			n.cfg.Logger.Info("worker requested a replacement")
		case end.ready && end.lived >= n.cfg.stable:
			failures = 0
			n.cfg.Logger.Warn("worker crashed; restarting", "cause", end.err)
		default:
			failures++
			if n.tooMany(failures, everReady) {
				err := fmt.Errorf("cluster: %s: given up after %d processes: %w", n.title(), failures, end.err)
				n.cfg.Logger.Error("worker failed permanently", "processes", failures, "cause", end.err)
				n.finish(err)
				return
			}
			message := "worker did not start; restarting"
			if end.ready {
				message = "worker crashed early; restarting"
			}
			n.cfg.Logger.Warn(message, "failures", failures, "cause", end.err)
		}
		n.update(func(i *WorkerInfo) { i.State, i.PID, i.Address, i.DataAddresses = Restarting, 0, "", nil })
		if !n.backOff(failures) {
			n.finish(nil)
			return
		}
	}
}

// firstFailures is how many processes may fail before one has been registered for the first time: the cause is then
// usually permanent, such as a wrong address.
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

// backOff waits before the next process is started: not at all after one that was stable, otherwise 100 ms, doubled
// each time up to 10 s. It reports whether to start another process.
func (n *Nanny) backOff(failures int) bool {
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
			close(down) // no process runs, and the next one is about to start
		case <-n.stop:
			return false
		case <-n.kill:
			return false
		}
	}
}

// runProcess runs one process from its start to its end.
func (n *Nanny) runProcess() ending {
	spec, env := n.next()
	spec.DeathToken = rand.Text()
	p, err := n.spawn(spec, env)
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
	if end.final == "" && !end.stopped && len(end.again) == 0 {
		n.reportDeath(spec.DeathToken, end.err)
	}
	return end
}

// watch waits until the process has ended, and kills it if necessary. The error of the result is nil if only the exit
// status has the cause.
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
	var overdue <-chan time.Time // timeout of a process that is replaced
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
				events = nil // the process is ending
				continue
			}
			handle(e)
		case <-p.child.Done:
			if events != nil { // events of a process that ended early
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
			end.crash(fmt.Errorf("not registered with %s after %v", n.spec.Scheduler, n.cfg.StartTimeout))
			return end
		case <-memory.C:
			if used, err := residentMemory(p.pid()); err == nil && used > limit {
				p.kill()
				end.crash(fmt.Errorf("process of %d MiB exceeded %.0f%% of its memory limit of %d MiB", used>>20,
					100*n.cfg.Terminate, n.spec.MemoryLimit>>20))
				return end
			}
		}
	}
}

// observe records a report of the process about its end.
func (e *ending) observe(ev event) {
	switch ev.Event {
	case eventClosed, eventRestart:
		e.final, e.err = ev.Event, nil
	case eventLost:
		e.final, e.err = ev.Event, errors.New(ev.Error)
	case eventFailed:
		e.crash(errors.New(ev.Error))
	}
}

// crash records a crash, whatever the process has reported before.
func (e *ending) crash(cause error) { e.final, e.err = "", cause }

// exitCause returns a description of the exit status of a process; err is the error of waiting if there is no status.
func exitCause(s *os.ProcessState, err error) error {
	if s == nil {
		return err
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return fmt.Errorf("process ended by signal %d (%v)", int(w.Signal()), w.Signal())
	}
	return fmt.Errorf("process ended with exit code %d", s.ExitCode())
}
