package ucx

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
	"unsafe"

	"go.millstream.dev/internal/ucx/ucxenv"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/obs"
	"go.millstream.dev/ucx/internal/ucp"
)

// Features a context can have. The zero value of Config.Features means all.
type Features uint64

// The features of UCX. Wakeup gives workers a descriptor to sleep on.
const (
	Tag        Features = ucp.FeatureTag
	RMA        Features = ucp.FeatureRMA
	Atomic32   Features = ucp.FeatureAMO32
	Atomic64   Features = ucp.FeatureAMO64
	Wakeup     Features = ucp.FeatureWakeup
	Stream     Features = ucp.FeatureStream
	ActiveMsg  Features = ucp.FeatureAM
	AllFeature          = Tag | RMA | Atomic32 | Atomic64 | Wakeup | Stream | ActiveMsg
)

// Events hears of endpoints, registrations and drops; see [obs.Events].
type Events = obs.Events

// Config configures a [Context]. The zero value is useful.
type Config struct {
	// Name appears in UCX's own output. Default: "millstream".
	Name string
	// Library is the path of a libucp.so.0. Default: searched for, see [Library].
	Library string
	// Features to ask for. Default: all. Asking for less can be faster and lets
	// UCX use transports that cannot wake a sleeper.
	Features Features
	// Options are UCX settings without the UCX_ prefix, such as {"TLS": "tcp,self"}.
	// A UCX_* variable in the environment wins over an option of the same name, and
	// the difference is logged.
	Options map[string]string
	// PlainLanes leaves the choice of lanes to UCX as any UCX program does. Without it
	// Millstream adds shared memory to endpoints that report errors, and programs that
	// do not, such as Python's UCXX, refuse to be connected to by DialSocket and
	// DialUCXX. With it, such endpoints use tcp between processes of one host.
	PlainLanes bool
	// EstimatedEndpoints helps UCX choose transports for large meshes. Default: UCX's.
	EstimatedEndpoints int
	// Events hears of what happens. Default: nothing.
	Events Events
}

// Context is a UCX context: a choice of transports and the memory registered with
// them. It is safe for any number of goroutines. Close it after its workers.
type Context struct {
	lib      *LibraryInfo
	cfg      Config
	h        *ucp.Context
	text     string // configuration as UCX prints it, taken at creation
	pinOK    bool   // Go memory may be handed to UCX for the length of an operation
	amoOK    bool   // endpoints in peer error mode have atomic operations
	lanes    []string
	sockaddr error // why socket addresses cannot be used; UCX would end the process

	calls   sync.WaitGroup // calls into UCX's memory functions; added to under mu while not closed
	mu      sync.Mutex     // guards the fields below; never held across a C call that can block
	workers map[*Worker]struct{}
	regs    map[*registration]struct{}
	allocs  int // buffers from Alloc: their memory goes with the context
	closed  bool
}

// defaultOptions are set unless the user set the variable. With them, endpoints that
// report peer errors still use shared memory; UCX leaves it out otherwise and falls
// to tcp on one host. See the package comment about how death is noticed.
//
// UCX before 1.17 takes only the common name, newer ones only the transports' own;
// the other kind is a warning on the user's terminal.
var defaultOptions = []struct {
	name, value string
	releases    releases // which releases of UCX take it by that name
	transports  []string // any of them takes the option
	unlessSet   []string // variables whose presence means that the user has decided
}{
	{"POSIX_ERROR_HANDLING", "y", from117, []string{"posix"}, []string{"UCX_POSIX_ERROR_HANDLING", "UCX_MM_ERROR_HANDLING"}},
	{"SYSV_ERROR_HANDLING", "y", from117, []string{"sysv"}, []string{"UCX_SYSV_ERROR_HANDLING", "UCX_MM_ERROR_HANDLING"}},
	// One copy instead of two for large messages. UCX offers this transport in peer error
	// mode only to those who promise that memory is not touched after an error; here both
	// sides close on any error, and the one that cancels waits for the other to do so.
	{"CMA_MEMORY_INVALIDATE", "y", from117, []string{"cma"}, []string{"UCX_CMA_MEMORY_INVALIDATE"}},
	{"MEMORY_INVALIDATE", "y", before117, []string{"cma"}, []string{"UCX_CMA_MEMORY_INVALIDATE"}},
	{"MM_ERROR_HANDLING", "y", before117, []string{"posix", "sysv"}, []string{"UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING", "UCX_MM_ERROR_HANDLING"}},
}

type releases int

const (
	before117 releases = iota
	from117
)

func applyDefaults(uc *ucp.Config, lib *LibraryInfo, tls string) {
	for _, o := range defaultOptions {
		if o.releases == before117 && lib.AtLeast(1, 17) || o.releases == from117 && !lib.AtLeast(1, 17) {
			continue
		}
		if !slices.ContainsFunc(o.transports, func(t string) bool { return selects(tls, t) }) {
			continue // UCX warns of options that no transport of the context takes
		}
		isSet := func(name string) bool { _, set := os.LookupEnv(name); return set }
		if !slices.ContainsFunc(o.unlessSet, isSet) {
			uc.Modify(o.name, o.value) // a library without that transport has no such option
		}
	}
}

// NewContext makes a context. Settings come from, in falling order: UCX_* variables,
// cfg.Options, Millstream's defaults, UCX's defaults.
func NewContext(cfg Config) (*Context, error) {
	lib, err := loadLibrary(cfg.Library)
	if err != nil {
		return nil, err
	}
	installDeviceHooks()
	if cfg.Features == 0 {
		cfg.Features = AllFeature
	}
	if cfg.Name == "" {
		cfg.Name = "millstream"
	}
	uc, st := ucp.ReadConfig()
	if st != 0 {
		return nil, &OpError{Op: "read configuration", Err: Status(st)}
	}
	defer uc.Release()
	if !cfg.PlainLanes {
		applyDefaults(uc, lib, effectiveTLS(cfg.Options))
	}
	var names []string
	for _, o := range parseOptions(uc.Text()) {
		names = append(names, o.Name)
	}
	for _, name := range sortedKeys(cfg.Options) {
		if err := applyOption(uc, lib, names, name, cfg.Options[name]); err != nil {
			return nil, err
		}
	}
	h, st := ucp.NewContext(uc, uint64(cfg.Features), cfg.Name, cfg.EstimatedEndpoints)
	if st != 0 {
		return nil, &OpError{Op: "create context", Err: fmt.Errorf("%w (UCX %s; UCX_TLS=%q: `millstream doctor` lints the settings)", Status(st), lib.Version, os.Getenv("UCX_TLS"))}
	}
	c := &Context{lib: lib, cfg: cfg, h: h, text: uc.Text(), workers: map[*Worker]struct{}{}, regs: map[*registration]struct{}{}}
	c.lanes = parseResources(h.Text())
	c.pinOK = pinSafe(c.lanes)
	c.sockaddr = checkSockaddr(c.Config())
	c.amoOK = slices.Contains(c.Config(), Option{"UCX_PROTO_ENABLE", "n"}) // see Atomic
	return c, nil
}

// effectiveTLS is the value of UCX_TLS that the context will see.
func effectiveTLS(options map[string]string) string {
	if v, set := os.LookupEnv("UCX_TLS"); set {
		return v
	}
	for _, name := range []string{"TLS", "UCX_TLS"} {
		if v, ok := options[name]; ok {
			return v
		}
	}
	return "all"
}

// selects tells whether a UCX_TLS value lets a shared-memory transport in.
func selects(tls, transport string) bool {
	list, negated := strings.CutPrefix(strings.TrimSpace(tls), "^")
	named := false
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(name) {
		case transport, "all", "sm", "shm", "mm":
			named = true
		}
	}
	return named != negated
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func applyOption(uc *ucp.Config, lib *LibraryInfo, names []string, name, value string) error {
	name = strings.TrimPrefix(name, "UCX_")
	if env, set := os.LookupEnv("UCX_" + name); set {
		if env != value {
			logf("option %s=%s is not applied: UCX_%s=%s is set in the environment and wins", name, value, name, env)
		}
		return nil
	}
	if f := ucxenv.CheckName("UCX_"+name, value, ucxenv.Host{Version: lib.Version, Options: names}); f != nil {
		return &OpError{Op: "configure", Err: fmt.Errorf("ucx: option %s: %s; %s: %w", name, f.Problem, f.Fix, ErrNoElem)}
	}
	switch st := Status(uc.Modify(name, value)); st {
	case OK:
		return nil
	default:
		return &OpError{Op: "configure", Err: fmt.Errorf("ucx: %q is no valid value for option %s: %w", value, name, st)}
	}
}

// Library describes the libucp in use.
func (c *Context) Library() LibraryInfo { return *c.lib }

// Name returns the context's name.
func (c *Context) Name() string { return c.cfg.Name }

// Features returns the features that were asked for.
func (c *Context) Features() Features { return c.cfg.Features }

// Option is one effective UCX setting.
type Option struct {
	Name  string // with prefix: "UCX_TLS"
	Value string
}

// Config returns the effective options of the context, sorted by name.
func (c *Context) Config() []Option { return parseOptions(c.text) }

// checkSockaddr finds settings with which UCX's socket connections end the process
// instead of failing: no connection manager is left.
func checkSockaddr(options []Option) error {
	for _, o := range options {
		if o.Name == "UCX_SOCKADDR_TLS_PRIORITY" {
			_, rdma := ucxenv.ReadNetDevices(os.DirFS("/sys"))
			return ucxenv.CheckSockaddr(o.Value, rdma)
		}
	}
	return nil
}

func parseOptions(text string) []Option {
	var out []Option
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "UCX_") {
			out = append(out, Option{name, value})
		}
	}
	slices.SortFunc(out, func(a, b Option) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Info returns UCX's description of the context: memory domains and transports.
func (c *Context) Info() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return "", &OpError{Op: "context info", Err: ErrClosed}
	}
	return c.h.Text(), nil
}

// Transports returns the transports and devices the context may use, "tcp/eth0".
func (c *Context) Transports() []string { return slices.Clone(c.lanes) }

// SupportsMemory reports whether UCX can move memory of that kind.
func (c *Context) SupportsMemory(k mem.Kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	types, _, _, st := c.h.Query()
	if st != 0 {
		return false
	}
	switch k {
	case mem.Device:
		return types&(1<<1) != 0
	case mem.Managed:
		return types&(1<<2) != 0
	}
	return types&1 != 0
}

var resourceLine = regexp.MustCompile(`(?m)^#\s+resource\s+\d+\s*:\s+md\s+\d+\s+dev\s+\d+\s+flags\s+\S+\s+(\S+)\s*$`)

// parseResources reads "tl/device" from UCX's context description.
func parseResources(text string) []string {
	var out []string
	for _, m := range resourceLine.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// pinSafe reports whether no transport of the context caches registrations of
// ordinary memory: UCX does not see Go's own munmap and madvise, so a cached
// registration of Go memory could outlive the pages.
func pinSafe(lanes []string) bool {
	if len(lanes) == 0 {
		return false // unknown format: stay on the safe side
	}
	for _, l := range lanes {
		tl, _, _ := strings.Cut(l, "/")
		switch tl {
		case "self", "tcp", "posix", "sysv", "cma":
		default:
			if !strings.HasPrefix(tl, "cuda_") {
				return false
			}
		}
	}
	return true
}

// Close frees the context. Its workers must be closed and the buffers from Alloc
// released before; otherwise Close returns an error that counts them and changes
// nothing.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	if n := len(c.workers); n > 0 {
		c.mu.Unlock()
		return &OpError{Op: "close context", Err: fmt.Errorf("ucx: %d workers are still open; close them first", n)}
	}
	if n := c.allocs; n > 0 {
		c.mu.Unlock()
		return &OpError{Op: "close context", Err: fmt.Errorf("ucx: %d buffers that Context.Alloc made are in use; release them first", n)}
	}
	c.closed = true
	regs := c.regs
	c.regs = nil
	c.mu.Unlock()
	c.calls.Wait()
	for r := range regs {
		r.region.Detach(c)
		c.h.MemUnmap(r.memh, r.region.Device())
	}
	c.h.Free()
	return nil
}

// registration is one region registered with one context. It is made at the first
// use of the region and ended by the region's end or the context's, whichever comes first.
type registration struct {
	region *mem.Region
	memh   unsafe.Pointer
	took   time.Duration
}

// register returns the registration of a region, making it if needed.
func (c *Context) register(r *mem.Region) (*registration, error) {
	v, err := r.Attach(c, func() (any, error) { return c.newRegistration(r) })
	if err != nil {
		return nil, err
	}
	return v.(*registration), nil
}

func (c *Context) newRegistration(r *mem.Region) (any, error) {
	if err := c.enter(); err != nil {
		return nil, &OpError{Op: "register memory", Err: err}
	}
	defer c.calls.Done()
	start := time.Now()
	kind := View{kind: r.Kind()}
	memh, _, st := c.h.MemMap(r.Addr(), uint64(r.Len()), int(kind.memType()), r.Device(), false)
	if st != 0 {
		return nil, &OpError{Op: "register memory", Err: fmt.Errorf("%w (%d bytes of %s memory)", Status(st), r.Len(), r.Kind())}
	}
	reg := &registration{region: r, memh: memh, took: time.Since(start)}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.h.MemUnmap(memh, r.Device())
		return nil, &OpError{Op: "register memory", Err: ErrClosed}
	}
	c.regs[reg] = struct{}{}
	c.mu.Unlock()
	if f := c.cfg.Events.Registered; f != nil {
		f(obs.Registration{Bytes: r.Len(), Kind: r.Kind().String(), Took: reg.took})
	}
	r.OnFree(func() { c.unregister(reg) })
	return reg, nil
}

// enter begins a call into UCX's memory functions, which Close waits for. The caller
// ends it with calls.Done.
func (c *Context) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.calls.Add(1)
	return nil
}

func (c *Context) unregister(reg *registration) {
	c.mu.Lock()
	_, mine := c.regs[reg]
	delete(c.regs, reg)
	if mine {
		c.calls.Add(1)
	}
	c.mu.Unlock()
	if !mine {
		return // the context has closed and ended it
	}
	defer c.calls.Done()
	c.h.MemUnmap(reg.memh, reg.region.Device())
	if f := c.cfg.Events.Deregistered; f != nil {
		f(obs.Registration{Bytes: reg.region.Len(), Kind: reg.region.Kind().String()})
	}
}

// Registrations returns how many regions are registered with the context.
func (c *Context) Registrations() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.regs) + c.allocs
}

// background is the context of internal steps that end by themselves.
var background = context.Background()
