package scheduler

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/gateway"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// pythonPreloads returns the preloads that run in the Python helper, and their arguments: all but that of dask-gateway.
func pythonPreloads(p *PythonConfig) (modules, argv []string) {
	if !slices.Contains(p.Preload, gateway.Module) {
		return p.Preload, p.PreloadArgv
	}
	modules = slices.DeleteFunc(slices.Clone(p.Preload), func(m string) bool { return m == gateway.Module })
	_, argv = gateway.Split(p.PreloadArgv)
	return modules, argv
}

// gatewayHost is the scheduler as the connection with dask-gateway uses it.
type gatewayHost struct{ s *Scheduler }

// start connects the scheduler with the server of dask-gateway if that has started it.
func (h gatewayHost) start(ctx context.Context) error {
	s, p := h.s, h.s.cfg.Python
	if !slices.Contains(p.Preload, gateway.Module) {
		return nil
	}
	own, others := gateway.Split(p.PreloadArgv)
	if len(others) > 0 && len(p.Preload) == 1 {
		own = append(own, others...) // reports the first as unknown
	}
	o, err := gateway.ParseOptions(own, os.Getenv)
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	host, _ := comm.AddressHost(s.contact)
	dashboard := ""
	if a := s.inspect.Address(); a != "" {
		dashboard = "http://" + a
		if s.cfg.ListenConfig.TLS != nil && httpguard.NeedsToken(s.cfg.Dashboard) {
			dashboard = "https://" + a
		}
	}
	s.gateway, err = gateway.Start(ctx, gateway.Host{
		Log: s.log, Context: s.ctx, Go: s.serving.Go, Address: s.contact, ContactHost: host, Dashboard: dashboard,
		Workers: h.workers, Target: h.target, ToClose: h.toClose, Retire: h.retire,
		IdleSince: h.idleSince,
	}, o)
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	return nil
}

func (h gatewayHost) workers(ctx context.Context) (map[string]string, <-chan struct{}, error) {
	var changed <-chan struct{}
	names, err := loop.Ask(ctx, h.s.loop, func() (map[string]string, error) {
		changed = h.s.workersChanged.Wait()
		out := make(map[string]string, len(h.s.workers.ByAddress))
		for address, w := range h.s.workers.ByAddress {
			out[address] = peers.NameText(w.Name)
		}
		return out, nil
	})
	return names, changed, err
}

func (h gatewayHost) target(ctx context.Context, d time.Duration) (int, error) {
	v, err := h.s.ask(ctx, "adaptive_target", msgpack.MapOf("target_duration", d.Seconds()))
	n, _ := val.Number(v)
	return int(n), err
}

func (h gatewayHost) toClose(ctx context.Context, count int) ([]string, error) {
	v, err := h.s.ask(ctx, "workers_to_close", msgpack.MapOf("target", count, "attribute", "name"))
	list, _ := v.([]any)
	out := make([]string, len(list))
	for i, name := range list {
		out[i] = peers.NameText(name)
	}
	return out, err
}

func (h gatewayHost) retire(ctx context.Context, names []string) error {
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = name
	}
	_, err := h.s.ask(ctx, "retire_workers", msgpack.MapOf("names", list, "remove", true, "close_workers", true))
	return err
}

func (h gatewayHost) idleSince(ctx context.Context) (time.Time, error) {
	v, err := h.s.ask(ctx, "check_idle", nil)
	f, ok := val.Number(v)
	if err != nil || !ok {
		return time.Time{}, err
	}
	return time.UnixMicro(int64(f * 1e6)), nil
}
