package ucxbench

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// side is one end of a pair, through the public interface of package ucx.
type side struct {
	args    OpenArgs
	context *ucx.Context
	worker  *ucx.Worker
	door    door // how the server is found
	ep      *ucx.Endpoint
	control [16]byte
	pool    *mem.Pool // of device memory, made when it is first asked for
}

// NewSide is the [Side] that the benchmark's children run.
func NewSide() Side { return &side{} }

// progressModes by name.
var progressModes = map[string]ucx.ProgressMode{"spin": ucx.Polling, "adaptive": ucx.Adaptive}

func (s *side) Open(ctx context.Context, args OpenArgs) (Opened, error) {
	if s.context != nil {
		return Opened{}, errors.New("already open")
	}
	mode, ok := progressModes[args.Mode]
	if !ok {
		return Opened{}, unknown("mode", args.Mode, ModeNames)
	}
	s.args = args
	if err := ucx.Available(); err != nil {
		return Opened{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c, err := ucx.NewContext(ucx.Config{Name: "millstream-bench"})
	if err != nil {
		return Opened{}, err
	}
	s.context = c
	lib := c.Info().Library
	opened := Opened{Library: lib.Path, Version: lib.Version, PID: os.Getpid()}
	if s.worker, err = c.NewWorker(ucx.WorkerConfig{Progress: mode}); err != nil {
		return Opened{}, err
	}
	// Before the first message can come: UCX drops what nobody opened.
	if err := s.worker.OpenAM(amData); err != nil {
		return Opened{}, err
	}
	s.door, err = newDoor(s.worker, args)
	if err != nil {
		return Opened{}, err
	}
	opened.Address, err = s.door.address(ctx)
	return opened, err
}

func (s *side) Connect(ctx context.Context, address string) (Connected, error) {
	if s.worker == nil {
		return Connected{}, errors.New("connect before open")
	}
	ep, err := s.door.connect(ctx, address)
	if err != nil {
		return Connected{}, err
	}
	s.ep = ep
	// The lanes are final only after messages have gone both ways.
	for range 2 {
		if err := s.sync(ctx); err != nil {
			return Connected{}, err
		}
	}
	lanes, err := ep.Transports()
	if err != nil {
		return Connected{}, err
	}
	return Connected{Lanes: laneNames(lanes)}, nil
}

func (s *side) Run(ctx context.Context, spec Spec) (Sample, error) {
	if s.ep == nil {
		return Sample{}, errors.New("run before connect")
	}
	c, err := FindCase(spec.Case)
	if err != nil {
		return Sample{}, err
	}
	if spec.Window < 1 || spec.Goroutines < 1 || spec.Size < 0 || spec.Iterations < 1 && c.Kind != Idle &&
		c.Kind != Mapping {
		return Sample{}, fmt.Errorf("a measurement without iterations, window or goroutines: %+v", spec)
	}
	if c.Kind == Idle {
		return s.idle(ctx, spec)
	}
	if c.Kind == Mapping {
		return s.ipcMap(ctx, spec)
	}
	size := payloadSize(c, spec)
	device, err := s.deviceMemory(spec)
	if err != nil {
		return Sample{}, err
	}
	out, err := newPayload(ctx, spec.Mem, size, device, s.sharedIf(c.API == "get" && s.args.Server))
	if err != nil {
		return Sample{}, err
	}
	defer out.release()
	in, err := newPayload(ctx, spec.Mem, size, device, s.sharedIf(c.API == "put" && s.receives(c)))
	if err != nil {
		return Sample{}, err
	}
	defer in.release()
	if err := errors.Join(out.fill(s.seed(spec, true)), in.clear()); err != nil {
		return Sample{}, err
	}
	if err := s.sync(ctx); err != nil { // both have their memory ready
		return Sample{}, err
	}
	sample, err := s.measure(ctx, c, spec, out, in)
	if err != nil {
		return Sample{}, err
	}
	if s.receives(c) {
		if err := in.check(s.seed(spec, false)); err != nil {
			return Sample{}, err
		}
	}
	return sample, s.sync(ctx) // memory may go
}

// sharedIf is where memory comes from that the peer reaches by itself.
func (s *side) sharedIf(reached bool) mem.Resource {
	if !reached {
		return nil
	}
	return s.context.Resource(mem.Host, -1)
}

// seed of the pattern that this side sends, or of the other's.
func (s *side) seed(spec Spec, own bool) uint64 {
	if s.args.Server == own {
		return spec.Seed ^ 0x9E3779B97F4A7C15
	}
	return spec.Seed
}

// receives says whether payload arrives at this side.
func (s *side) receives(c Case) bool {
	switch {
	case c.Kind == Latency && c.API != "get":
		return true
	case c.API == "get":
		return !s.args.Server
	default:
		return s.args.Server
	}
}

func (s *side) measure(ctx context.Context, c Case, spec Spec, out, in *payload) (Sample, error) {
	switch c.Name {
	case "tag-lat":
		return s.tagLatency(ctx, spec, out, in)
	case "tag-bw":
		return s.tagBandwidth(ctx, spec, out, in)
	case "tag-rate":
		return s.tagRate(ctx, spec, out, in)
	case "am-lat":
		return s.amLatency(ctx, spec, out, in)
	case "am-bw":
		return s.amBandwidth(ctx, spec, out, in)
	case "stream-lat":
		return s.streamLatency(ctx, spec, out, in)
	case "stream-bw":
		return s.streamBandwidth(ctx, spec, out, in)
	case "put-lat":
		return s.putLatency(ctx, spec, out, in)
	case "put-bw":
		return s.putBandwidth(ctx, spec, out, in)
	case "get-lat":
		return s.getLatency(ctx, spec, out, in)
	case "get-bw":
		return s.getBandwidth(ctx, spec, out, in)
	}
	return Sample{}, fmt.Errorf("case %s has no program", c.Name)
}

func (s *side) Close(ctx context.Context) error {
	var failed []error
	if s.ep != nil {
		failed = append(failed, s.ep.Shutdown(ctx))
	}
	if s.door != nil {
		failed = append(failed, s.door.close())
	}
	if s.worker != nil {
		failed = append(failed, s.worker.Close())
	}
	if s.pool != nil {
		failed = append(failed, s.pool.Close())
	}
	if s.context != nil {
		failed = append(failed, s.context.Close())
	}
	return errors.Join(failed...)
}

func laneNames(lanes []ucx.Transport) []string {
	var names []string
	seen := map[string]bool{}
	for _, l := range lanes {
		if name := l.String(); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}
