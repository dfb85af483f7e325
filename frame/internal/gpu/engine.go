package gpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels"
	"go.millstream.dev/mem"
)

// threads is the block size of all kernels.
const threads = 256

// maxRows bounds the rows of a table: they are numbered by 32 bits, and a sort counts them with 30.
const maxRows = 1<<30 - 1

// Config specifies the device and its memory.
type Config struct {
	// Device is the ordinal of the GPU.
	Device int
	// Memory allocates device memory, Pinned page-locked host memory. What they refuse is an error of the verb, which
	// names the bytes.
	Memory, Pinned mem.Resource
	// Stream is the stream for all work.
	Stream *cuda.Stream
}

// Engine runs verbs on one stream. It must be used by one goroutine at a time.
type Engine struct {
	cfg     Config
	modules map[string]*cuda.Module
	// staging is host memory for numbers to and from the device; staged is the last copy out of it.
	staging *mem.Buffer
	staged  *cuda.Event
	blocks  map[*cuda.Function]int
}

// images are the images of the kernels.
var images = []string{"table_rows", "table_group", "table_join", "table_sort"}

// New returns an Engine and loads the kernels.
func New(cfg Config) (*Engine, error) {
	if cfg.Memory == nil || cfg.Pinned == nil {
		return nil, errors.New("gpu: no memory: set Config.Memory and Config.Pinned")
	}
	e := &Engine{cfg: cfg, modules: map[string]*cuda.Module{}, blocks: map[*cuda.Function]int{}}
	for _, name := range images {
		m, err := kernels.Load(cfg.Device, name)
		if err != nil {
			return nil, err
		}
		e.modules[name] = m
	}
	return e, nil
}

// Close frees the memory of the engine, not that of tables.
func (e *Engine) Close() error {
	if e.staging != nil {
		e.staging.Release()
		e.staging = nil
	}
	return nil
}

// Wait waits until all work enqueued so far is done.
func (e *Engine) Wait(ctx context.Context) error { return e.cfg.Stream.Wait(ctx) }

// alloc allocates device memory for work on the stream.
func (e *Engine) alloc(ctx context.Context, what string, n int) (*mem.Buffer, error) {
	b, err := mem.AllocOn(ctx, e.cfg.Memory, n, e.cfg.Stream)
	if err != nil {
		return nil, fmt.Errorf("gpu: %s: %d bytes of device memory: %w", what, n, err)
	}
	return b, nil
}

// allocNow allocates device memory that the host and other streams may use immediately.
func (e *Engine) allocNow(ctx context.Context, what string, n int) (*mem.Buffer, error) {
	b, err := e.cfg.Memory.Alloc(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("gpu: %s: %d bytes of device memory: %w", what, n, err)
	}
	return b, nil
}

// zeroed allocates device memory that is set to 0.
func (e *Engine) zeroed(ctx context.Context, what string, n int) (*mem.Buffer, error) {
	b, err := e.alloc(ctx, what, n)
	if err != nil || n == 0 {
		return b, err
	}
	if _, err := e.cfg.Stream.Fill(b, 0); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// launch runs a kernel whose threads loop over n items; it does nothing if there are none.
func (e *Engine) launch(image, name string, n int, args ...cuda.Arg) error {
	if n == 0 {
		return nil
	}
	f, err := e.modules[image].Function(name)
	if err != nil {
		return err
	}
	most, ok := e.blocks[f]
	if !ok {
		if most, err = f.Blocks(threads, 0); err != nil {
			return err
		}
		e.blocks[f] = most
	}
	return e.launchBlocks(f, min((n+threads-1)/threads, max(most, 1)), args...)
}

// launchAll runs a kernel with a number of blocks.
func (e *Engine) launchAll(image, name string, blocks int, args ...cuda.Arg) error {
	f, err := e.modules[image].Function(name)
	if err != nil {
		return err
	}
	return e.launchBlocks(f, blocks, args...)
}

func (e *Engine) launchBlocks(f *cuda.Function, blocks int, args ...cuda.Arg) error {
	_, err := e.cfg.Stream.Launch(f, cuda.LaunchConfig{Grid: cuda.Dim{X: blocks}, Block: cuda.Dim{X: threads}}, args...)
	return err
}

// stage returns n bytes of pinned memory, which no copy uses.
func (e *Engine) stage(ctx context.Context, n int) (*mem.Buffer, error) {
	if e.staged != nil {
		if err := waitSoon(ctx, e.staged); err != nil {
			return nil, err
		}
		e.staged = nil
	}
	if e.staging == nil || e.staging.Len() < n {
		if e.staging != nil {
			e.staging.Release()
			e.staging = nil
		}
		b, err := e.cfg.Pinned.Alloc(ctx, max(n, 64<<10))
		if err != nil {
			return nil, fmt.Errorf("gpu: %d bytes of pinned memory: %w", n, err)
		}
		e.staging = b
	}
	return e.staging.Slice(0, n), nil
}

// fetch waits for the first words of a buffer.
func (e *Engine) fetch(ctx context.Context, src *mem.Buffer, words int) ([]uint64, error) {
	host, err := e.stage(ctx, 8*words)
	if err != nil {
		return nil, err
	}
	defer host.Release()
	from := src.Slice(0, 8*words)
	defer from.Release()
	done, err := e.cfg.Stream.Copy(host, from)
	if err != nil {
		return nil, err
	}
	if err := waitSoon(ctx, done); err != nil {
		return nil, err
	}
	return append([]uint64(nil), view[uint64](host.Bytes())...), nil
}

// put copies words to a buffer.
func (e *Engine) put(ctx context.Context, dst *mem.Buffer, words []uint64) error {
	host, err := e.stage(ctx, 8*len(words))
	if err != nil {
		return err
	}
	defer host.Release()
	copy(view[uint64](host.Bytes()), words)
	to := dst.Slice(0, 8*len(words))
	defer to.Release()
	if e.staged, err = e.cfg.Stream.Copy(to, host); err != nil {
		return err
	}
	dst.SetReady(e.staged)
	return nil
}

// spin is how long waitSoon polls without a pause.
const spin = 2 * time.Millisecond

// waitSoon is Event.Wait with a longer spin.
func waitSoon(ctx context.Context, done *cuda.Event) error {
	for begin := time.Now(); time.Since(begin) < spin; {
		ok, err := done.Query()
		if err != nil {
			return err
		}
		if ok {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return done.Wait(ctx)
}

// held releases buffers that a verb has made when it fails or no longer needs them.
type held []*mem.Buffer

func (h *held) release() {
	for _, b := range *h {
		b.Release()
	}
	*h = nil
}

// keep adds a buffer, if there is one.
func (h *held) keep(b *mem.Buffer, err error) (*mem.Buffer, error) {
	if b != nil {
		*h = append(*h, b)
	}
	return b, err
}
