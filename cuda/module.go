package cuda

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"go.millstream.dev/internal/device/cudrv"
)

// Module is compiled device code loaded on one device; Function returns its kernels. It stays loaded until Close. Its
// methods are safe for concurrent use.
type Module struct {
	device int
	handle uint64

	mu        sync.Mutex
	functions map[string]*Function // found so far
	closed    bool
}

// LoadModule loads PTX text, a cubin or a fatbin on a device, and creates the device's context if there is none. The
// driver compiles PTX for the device; the error has the messages of its compiler. Loading takes milliseconds (PTX
// longer the first time; the driver caches it in the user's home directory) and may wait for work on the device: load
// modules before the first launch.
func LoadModule(device int, image []byte) (*Module, error) {
	if len(image) == 0 {
		return nil, fmt.Errorf("cuda: load module on device %d: empty image: %w", device, ErrInvalidValue)
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
			err = fmt.Errorf("%w: PTX requires a newer driver: update the driver or compile with an "+
				"older toolkit", err)
		case cudrv.NoBinaryForGPU:
			err = fmt.Errorf("%w: no code for this GPU in the image: compile to PTX or for its compute capability",
				err)
		}
		return nil, err
	}
	return &Module{device: device, handle: h, functions: map[string]*Function{}}, nil
}

// Function returns a kernel by its name in the image: extern "C" functions have their own name, others their mangled
// C++ name. Repeated calls return the same Function.
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

// Close unloads the module. Wait for the events of its launches first; its functions must not be used afterwards.
// Closing twice does nothing.
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

// MaxThreads returns how many threads a block of this kernel may have.
func (f *Function) MaxThreads() int { return f.info.MaxThreads }

// Registers returns how many registers each thread uses.
func (f *Function) Registers() int { return f.info.Registers }

// Blocks returns how many blocks of threads threads, with sharedBytes bytes of dynamic shared memory, the whole device
// runs at once: a good grid size for kernels that loop over their data.
func (f *Function) Blocks(threads, sharedBytes int) (int, error) {
	op := fmt.Sprintf("occupancy of %q", f.name)
	per, r := cudrv.FunctionBlocks(f.module.device, f.handle, threads, sharedBytes)
	if err := check(op, f.module.device, r); err != nil {
		return 0, err
	}
	d, r := cudrv.DeviceQuery(f.module.device)
	return per * d.Multiprocessors, check(op, f.module.device, r)
}
