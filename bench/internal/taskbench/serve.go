package taskbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"go.millstream.dev/internal/bench/benchpeer"
)

// member is a process of the benchmark: a cluster with its client, or one of the three of scheduler-only.
type member struct {
	local     *local
	scheduler *schedulerRole
	zero      *zeroWorkers
	flood     *floodRole
	profile   profile
}

// Serve serves commands until the input ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &member{}
	err := benchpeer.AnswerLines(in, out, func(c command) answer {
		a, err := m.do(ctx, c)
		if err != nil {
			return answer{Error: err.Error()}
		}
		return a
	})
	return errors.Join(err, m.close())
}

func (m *member) do(ctx context.Context, c command) (a answer, err error) {
	switch c.Do {
	case "start", "start-device", "start-spill":
		if m.local != nil {
			return a, errors.New("cluster already started")
		}
		start := map[string]func(context.Context, command) (*local, error){"start": startLocal,
			"start-device": startDevice, "start-spill": startSpill}[c.Do]
		m.local, err = start(ctx, c)
		if err != nil {
			return a, err
		}
		return m.local.describe()
	case "device-copies":
		return deviceCopies(ctx, c)
	case "stop":
		return a, m.close()
	case "profile":
		err := m.profile.to(c.Path)
		if err == nil && m.local != nil {
			err = m.local.profile(ctx, c.Path)
		}
		return a, err
	case "scheduler":
		if m.scheduler, err = startSchedulerRole(ctx, c); err != nil {
			return a, err
		}
		return answer{Address: m.scheduler.address(), Dashboard: m.scheduler.s.DashboardAddress(),
			Pid: os.Getpid()}, nil
	case "usage", "empty":
		if m.scheduler == nil {
			return a, errors.New("no scheduler started")
		}
		return m.scheduler.usage(ctx, c)
	case "zero":
		m.zero, err = startZero(ctx, c.Address, c.Workers, c.Threads)
		return a, err
	case "flood":
		if m.flood == nil {
			if m.flood, err = startFlood(ctx, c.Address); err != nil {
				return a, err
			}
		}
		return m.flood.run(ctx, c.N, c.Rate)
	case "release":
		if m.flood == nil {
			return a, errors.New("no client started")
		}
		return a, m.flood.release(ctx)
	}
	if m.local == nil {
		if !isCase(c.Do) {
			return a, fmt.Errorf("unknown command %q", c.Do)
		}
		return a, errors.New("no cluster; send start first")
	}
	return m.local.do(ctx, c)
}

func isCase(name string) bool {
	for _, c := range Cases() {
		if c.Name == name && name != schedulerOnly && name != dashboardCase {
			return true
		}
	}
	return false
}

// close closes all parts, clients first.
func (m *member) close() error {
	errs := []error{m.profile.stop()}
	if m.flood != nil {
		errs = append(errs, m.flood.close())
	}
	if m.local != nil {
		errs = append(errs, m.local.close())
	}
	if m.zero != nil {
		m.zero.close()
	}
	if m.scheduler != nil {
		errs = append(errs, m.scheduler.close())
	}
	*m = member{}
	return errors.Join(errs...)
}
