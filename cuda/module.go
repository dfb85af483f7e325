package cuda

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"go.millstream.dev/internal/device/cudrv"
)

// Module is compiled device code loaded on one device: kernels to be found by Function. It
// stays loaded until Close. Its methods are safe for concurrent use.
type Module struct {
	device int
	handle uint64

	mu        sync.Mutex
	functions map[string]*Function // found so far
	closed    bool
}

// LoadModule loads PTX text, a cubin or a fatbin on a device, and makes the device's context if
// there is none. PTX is compiled by the driver for the device at hand; what its compiler
// complains of is in the error. Loading takes milliseconds (PTX the first time more, the driver
// keeps a cache in the user's home) and may wait for work on the device: load before, not
// between, launches.
func LoadModule(device int, image []byte) (*Module, error) {
	if len(image) == 0 {
		return nil, fmt.Errorf("cuda: load module on device %d: the image is empty: %w", device, ErrInvalidValue)
	}
	// The driver reads PTX up to a zero byte.
	if image[len(image)-1] != 0 {
		image = append(bytes.Clone(image), 0)
	}
	h, log, r := cudrv.ModuleLoad(device, image)
	if err := check("load module", device, r); err != nil {
		if log = strings.TrimSpace(log); log != "" {
			err = fmt.Errorf("%w: %s", err, log)
		}
		switch r {
		case cudrv.UnsupportedPTX:
			err = fmt.Errorf("%w: the PTX is of a newer CUDA than the driver: update the driver or compile with an "+
				"older toolkit", err)
		case cudrv.NoBinaryForGPU:
			err = fmt.Errorf("%w: the image holds no code for this GPU: compile to PTX or for its compute capability",
				err)
		}
		return nil, err
	}
	return &Module{device: device, handle: h, functions: map[string]*Function{}}, nil
}

// Function finds a kernel by its name in the image: that of extern "C" functions is their own,
// others have their C++ name mangled. Asking again gives the same Function.
func (m *Module) Function(name string) (*Function, error) {
	m.mu.Lock()
	f, closed := m.functions[name], m.closed
	m.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("%w: function %q: module", ErrClosed, name)
	}
	if f != nil {
		return f, nil
	}
	h, r := cudrv.ModuleFunction(m.device, m.handle, name)
	if err := check(fmt.Sprintf("function %q", name), m.device, r); err != nil {
		if r == cudrv.NotFound {
			err = fmt.Errorf("%w: the module has no such kernel (is it extern \"C\" __global__?)", err)
		}
		return nil, err
	}
	info, r := cudrv.FunctionQuery(m.device, h)
	if err := check(fmt.Sprintf("describe function %q", name), m.device, r); err != nil {
		return nil, err
	}
	f = &Function{module: m, handle: h, name: name, info: info}
	m.mu.Lock()
	defer m.mu.Unlock()
	if other := m.functions[name]; other != nil {
		return other, nil
	}
	m.functions[name] = f
	return f, nil
}

// Close unloads the module. Wait for the events of its launches first; its functions must not
// be used any more. Closing twice does nothing.
func (m *Module) Close() error {
	m.mu.Lock()
	closed := m.closed
	m.closed, m.functions = true, nil
	m.mu.Unlock()
	if closed {
		return nil
	}
	return check("unload module", m.device, cudrv.ModuleUnload(m.device, m.handle))
}

// Function is a kernel of a module. It is launched by Stream.Launch.
type Function struct {
	module *Module
	handle uint64
	name   string
	info   cudrv.FunctionInfo
}

// MaxThreads is how many threads a block of this kernel may have.
func (f *Function) MaxThreads() int { return f.info.MaxThreads }

// Registers is how many registers each thread uses.
func (f *Function) Registers() int { return f.info.Registers }

// Blocks is how many blocks of so many threads, with so many bytes of dynamic shared memory,
// the whole device runs at once: a good grid for kernels that loop over their data.
func (f *Function) Blocks(threads, sharedBytes int) (int, error) {
	op := fmt.Sprintf("occupancy of %q", f.name)
	per, r := cudrv.FunctionBlocks(f.module.device, f.handle, threads, sharedBytes)
	if err := check(op, f.module.device, r); err != nil {
		return 0, err
	}
	d, r := cudrv.DeviceQuery(f.module.device)
	return per * d.Multiprocessors, check(op, f.module.device, r)
}
