package ucxbench

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// side is one side of a pair. It uses the exported API of package ucx.
type side struct {
	args      OpenArgs
	context   *ucx.Context
	worker    *ucx.Worker
	connector connector
	ep        *ucx.Endpoint
	control   [16]byte
	pool      *mem.Pool // for device memory, created at the first use
}

// NewSide returns the [Side] of the children.
func NewSide() Side { return &side{} }

// progressModes are the progress modes by name.
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
	c, err := ucx.NewContext(ucx.Config{Name: "millstream-bench", StageDevice: args.Stage})
	if err != nil {
		return Opened{}, err
	}
	s.context = c
	lib := c.Info().Library
	opened := Opened{Library: lib.Path, Version: lib.Version, PID: os.Getpid()}
	if s.worker, err = c.NewWorker(ucx.WorkerConfig{Progress: mode}); err != nil {
		return Opened{}, err
	}
	// UCX drops messages that arrive before OpenAM.
	if err := s.worker.OpenAM(amData); err != nil {
		return Opened{}, err
	}
	s.connector, err = newConnector(s.worker, args)
	if err != nil {
		return Opened{}, err
	}
	opened.Address, err = s.connector.address(ctx)
	return opened, err
}

func (s *side) Connect(ctx context.Context, address string) (Connected, error) {
	if s.worker == nil {
		return Connected{}, errors.New("connect before open")
	}
	ep, err := s.connector.connect(ctx, address)
	if err != nil {
		return Connected{}, err
	}
	s.ep = ep
	// The transports are final only after messages in both directions.
	for range 2 {
		if err := s.sync(ctx); err != nil {
			return Connected{}, err
		}
	}
	transports, err := ep.Transports()
	if err != nil {
		return Connected{}, err
	}
	return Connected{Transports: transportNames(transports)}, nil
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
		return Sample{}, fmt.Errorf("spec without iterations, window or goroutines: %+v", spec)
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
	if err := s.sync(ctx); err != nil { // both sides have allocated their memory
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
	return sample, s.sync(ctx) // memory may be released
}

// sharedIf returns the resource for memory that the peer accesses remotely, nil for other memory.
func (s *side) sharedIf(remote bool) mem.Resource {
	if !remote {
		return nil
	}
	return s.context.Resource(mem.Host, -1)
}

// seed returns the seed of the pattern that this side sends, or that of the other side.
func (s *side) seed(spec Spec, own bool) uint64 {
	if s.args.Server == own {
		return spec.Seed ^ 0x9E3779B97F4A7C15
	}
	return spec.Seed
}

// receives reports whether this side receives payload.
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
	case tagBatch:
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
	return Sample{}, fmt.Errorf("unknown case %s", c.Name)
}

func (s *side) Close(ctx context.Context) error {
	var failed []error
	if s.ep != nil {
		failed = append(failed, s.ep.Shutdown(ctx))
	}
	if s.connector != nil {
		failed = append(failed, s.connector.close())
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

func transportNames(list []ucx.Transport) []string {
	var names []string
	seen := map[string]bool{}
	for _, l := range list {
		if name := l.String(); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}
