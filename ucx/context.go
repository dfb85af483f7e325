package ucx

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"go.millstream.dev/internal/comm/ucxenv"
	"go.millstream.dev/internal/device/hooks"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/libfind"
	"go.millstream.dev/ucx/internal/netif"
	"go.millstream.dev/ucx/internal/obs"
	"go.millstream.dev/ucx/internal/options"
	"go.millstream.dev/ucx/internal/ucp"
)

// Features are the features of a context. The zero value of Config.Features means all.
type Features uint64

// Features of UCX. Wakeup gives workers a file descriptor to sleep on.
const (
	Tag            Features = ucp.FeatureTag
	RMA            Features = ucp.FeatureRMA
	Atomic32       Features = ucp.FeatureAMO32
	Atomic64       Features = ucp.FeatureAMO64
	Wakeup         Features = ucp.FeatureWakeup
	Stream         Features = ucp.FeatureStream
	ActiveMessages Features = ucp.FeatureAM
	AllFeatures             = Tag | RMA | Atomic32 | Atomic64 | Wakeup | Stream | ActiveMessages
)

// Events has callbacks for endpoints, registrations and dropped messages; see [obs.Events].
type Events = obs.Events

// Config configures a [Context]. The zero value is useful.
type Config struct {
	// Name appears in UCX's own output. Default: "millstream".
	Name string
	// Library is the path of a libucp.so.0. Default: searched for, see [Library].
	Library string
	// Features are the requested features. Default: all. Requesting fewer can be faster and lets UCX use transports
	// that do not support wakeup.
	Features Features
	// Options are UCX settings without the UCX_ prefix, such as {"TLS": "tcp,self"}. A UCX_* environment variable takes
	// precedence over an option of the same name; the conflict is logged.
	Options map[string]string
	// PlainTransports leaves the choice of transports to UCX, as in other UCX programs. Without it Millstream adds
	// shared memory to endpoints with error handling, and programs that do not, such as Python's UCXX, cannot be
	// reached with DialSocket and DialUCXX. With it, such endpoints use tcp between processes of one host, in
	// segments of UCX's default size.
	PlainTransports bool
	// EstimatedEndpoints helps UCX choose transports for large meshes. Default: UCX's own.
	EstimatedEndpoints int
	// StageDevice is the length in bytes up to which Send, SendSync and Recv of tag messages move device memory through
	// pinned host memory, at most MaxStageDevice. It is for processes that share a GPU without MPS, which switches
	// between them for each message otherwise, and should be equal in all of them. Default 0: UCX moves all device
	// memory.
	StageDevice int
	// Events receives events. Default: none.
	Events Events
}

// Context is a UCX context: a set of transports and the memory registered with them. It is safe for concurrent use.
// Close it after its workers.
type Context struct {
	lib        *LibraryInfo
	cfg        Config
	h          *ucp.Context
	text       string // configuration as UCX prints it, taken at creation
	pinOK      bool   // Go memory may be handed to UCX for the length of an operation
	amoOK      bool   // endpoints in peer error mode have atomic operations
	transports []string
	sockaddr   error // why socket addresses cannot be used; UCX would abort the process

	calls   sync.WaitGroup // calls into UCX's memory functions; added to under mu while not closed
	mu      sync.Mutex     // guards the fields below; never held across a C call that can block
	workers map[*Worker]struct{}
	regs    map[*registration]struct{}
	allocs  int // live buffers from Alloc: their memory is freed with the context
	closed  bool
}

// NewContext returns a new context. Settings come, in order of precedence, from UCX_* environment variables,
// cfg.Options, Millstream's defaults and UCX's defaults.
func NewContext(cfg Config) (*Context, error) {
	lib, err := loadLibrary(cfg.Library)
	if err != nil {
		return nil, err
	}
	installDeviceHooks()
	if cfg.StageDevice < 0 || cfg.StageDevice > MaxStageDevice {
		return nil, fmt.Errorf("ucx: Config.StageDevice is %d: use 0 to %d", cfg.StageDevice, MaxStageDevice)
	}
	if cfg.Features == 0 {
		cfg.Features = AllFeatures
	}
	if cfg.Name == "" {
		cfg.Name = "millstream"
	}
	uc, st := ucp.ReadConfig()
	if st != 0 {
		return nil, &OpError{Op: "read configuration", Err: Status(st)}
	}
	defer uc.Release()
	if !cfg.PlainTransports {
		options.ApplyDefaults(uc, lib.AtLeast(1, 17), cfg.Options)
	}
	var names []string
	for _, o := range options.Parse(uc.Text()) {
		names = append(names, o.Name)
	}
	for _, name := range sortedKeys(cfg.Options) {
		if err := applyOption(uc, lib, names, name, cfg.Options[name]); err != nil {
			return nil, err
		}
	}
	h, st := ucp.NewContext(uc, uint64(cfg.Features), cfg.Name, cfg.EstimatedEndpoints)
	if st != 0 {
		return nil, &OpError{Op: "create context", Err: fmt.Errorf("%w (UCX %s; UCX_TLS=%q: `millstream doctor` lints "+
			"the settings)", Status(st), lib.Version, os.Getenv("UCX_TLS"))}
	}
	c := &Context{lib: lib, cfg: cfg, h: h, text: uc.Text(), workers: map[*Worker]struct{}{},
		regs: map[*registration]struct{}{}}
	c.transports = options.Transports(h.Text())
	c.pinOK = options.PinSafe(c.transports)
	c.sockaddr = options.CheckSockaddr(options.Parse(c.text))
	c.amoOK = c.options()["UCX_PROTO_ENABLE"] == "n" // see Atomic
	return c, nil
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
		return &OpError{Op: "configure", Err: fmt.Errorf("ucx: option %s: %s; %s: %w", name, f.Problem, f.Fix,
			errNoElem)}
	}
	switch st := Status(uc.Modify(name, value)); st {
	case statusOK:
		return nil
	default:
		return &OpError{Op: "configure", Err: fmt.Errorf("ucx: invalid value %q for option %s: %w", value, name,
			st)}
	}
}

// ContextInfo describes a [Context].
type ContextInfo struct {
	Library       LibraryInfo       // the libucp in use
	Options       map[string]string // effective UCX settings by name, "UCX_TLS"
	Transports    []string          // transports and devices that the context may use, "tcp/eth0"
	Memory        []mem.Kind        // kinds of memory that UCX can move; empty after Close
	Registrations int               // regions of memory that are registered
	Text          string            // UCX's description: memory domains and transports; empty after Close
}

// Info returns a description of the context.
func (c *Context) Info() ContextInfo {
	out := ContextInfo{Library: *c.lib, Options: c.options(), Transports: slices.Clone(c.transports)}
	c.mu.Lock()
	defer c.mu.Unlock()
	out.Registrations = len(c.regs) + c.allocs
	if !c.closed {
		out.Memory, out.Text = c.memory(), c.h.Text()
	}
	return out
}

// options returns the effective settings of UCX.
func (c *Context) options() map[string]string {
	out := map[string]string{}
	for _, o := range options.Parse(c.text) {
		out[o.Name] = o.Value
	}
	return out
}

// memory returns the kinds of memory that UCX can move. mu is held, and the context is open.
func (c *Context) memory() []mem.Kind {
	types, _, _, st := c.h.Query()
	if st != 0 {
		return nil
	}
	var out []mem.Kind
	for _, m := range []struct {
		bit  uint
		kind mem.Kind
	}{{0, mem.Host}, {0, mem.Pinned}, {1, mem.Device}, {2, mem.Managed}} {
		if types&(1<<m.bit) != 0 {
			out = append(out, m.kind)
		}
	}
	return out
}

// supports reports whether UCX can move memory of a kind.
func (c *Context) supports(k mem.Kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && slices.Contains(c.memory(), k)
}

// Close frees the context. Its workers must be closed and the buffers from Alloc released before; otherwise Close
// returns an error with their number and leaves the context open.
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
		return &OpError{Op: "close context", Err: fmt.Errorf("ucx: %d buffers that Context.Alloc made are in use; "+
			"release them first", n)}
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

// checkFamily returns why UCX must not be given a socket address to listen on, or to connect to from the address local
// if that is valid.
func (c *Context) checkFamily(ctx context.Context, a netip.AddrPort, local netip.Addr, listen bool) error {
	switch {
	case listen:
		local = a.Addr()
	case !local.IsValid():
		if local = netif.RouteTo(ctx, a); !local.IsValid() {
			return nil // UCX will report it
		}
	}
	err := netif.FamilyError(a.Addr(), netif.InterfaceWith(local), c.familyOrder(), c.transports, c.lib.Version)
	if err != nil {
		return fmt.Errorf("%w: %w", err, errUnsupported)
	}
	return nil
}

// familyOrder returns the order in which UCX looks for addresses of a device; only "inet" for releases that cannot
// connect over IPv6.
func (c *Context) familyOrder() []string {
	if !c.lib.AtLeast(1, 14) {
		return []string{"inet"}
	}
	order, set := os.LookupEnv("UCX_TCP_AF_PRIO")
	for _, name := range []string{"TCP_AF_PRIO", "UCX_TCP_AF_PRIO"} {
		if v, ok := c.cfg.Options[name]; ok && !set && c.lib.AtLeast(1, 18) { // older releases read the variable only
			order = v
		}
	}
	var out []string
	for name := range strings.SplitSeq(order, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	if out == nil {
		return []string{"inet", "inet6"} // UCX's default
	}
	return out
}

// background is the context of internal steps of bounded duration.
var background = context.Background()

// featureOf is the feature that an operation requires; 0 if none. Atomics require a feature by the width of their word,
// remote memory one of several.
var featureOf = [ucp.OpCount]Features{
	ucp.OpTagSend: Tag, ucp.OpTagSendSync: Tag, ucp.OpTagRecv: Tag, ucp.OpTagMsgRecv: Tag,
	ucp.OpStreamSend: Stream, ucp.OpStreamRecv: Stream,
	ucp.OpAMSend: ActiveMessages, ucp.OpAMRecv: ActiveMessages,
	ucp.OpPut: RMA, ucp.OpGet: RMA,
}

// allows returns an error if the context lacks the feature of an operation. Release builds of UCX do not check: a tag
// message sent without the feature is lost and reports success.
func (c *Context) allows(op ucp.Op) error { return c.has(featureOf[op]) }

func (c *Context) has(f Features) error {
	if f&^c.cfg.Features == 0 {
		return nil
	}
	return fmt.Errorf("ucx: the context does not have the feature %s; add it to Config.Features: %w",
		f&^c.cfg.Features, errUnsupported)
}

var featureNames = []struct {
	f    Features
	name string
}{
	{Tag, "Tag"}, {RMA, "RMA"}, {Atomic32, "Atomic32"}, {Atomic64, "Atomic64"},
	{Wakeup, "Wakeup"}, {Stream, "Stream"}, {ActiveMessages, "ActiveMessages"},
}

// String returns the names of the features, "Tag|RMA".
func (f Features) String() string {
	var names []string
	for _, n := range featureNames {
		if f&n.f != 0 {
			names = append(names, n.name)
			f &^= n.f
		}
	}
	if f != 0 || names == nil {
		names = append(names, fmt.Sprintf("%#x", uint64(f)))
	}
	return strings.Join(names, "|")
}

// LibraryInfo describes the libucp that this process uses.
type LibraryInfo struct {
	Path       string   // absolute path of libucp
	Version    string   // "1.21.0"
	Major      int      // API version
	Minor      int      //
	CUDA       bool     // CUDA transports are installed next to it
	RDMA       bool     // InfiniBand transports are installed next to it
	PassedOver []string // other libraries that were found, and why each was not used
}

// AtLeast reports whether the library is version major.minor or newer.
func (l *LibraryInfo) AtLeast(major, minor int) bool {
	return l.Major > major || l.Major == major && l.Minor >= minor
}

var library struct {
	sync.Mutex
	info *LibraryInfo
	err  error
}

// Available loads libucp on first use and returns an error if it cannot be used. UCX is never loaded when the program
// starts.
func Available() error {
	_, err := Library()
	return err
}

// Library loads libucp, once per process, and describes it. The search order is: MILLSTREAM_UCX_LIBRARY, a libucp
// already loaded in the process, then the libraries of the system and of Python environments. On a machine with a GPU
// one with CUDA support is preferred. [Config].Library takes precedence over all.
func Library() (*LibraryInfo, error) { return loadLibrary("") }

func loadLibrary(explicit string) (*LibraryInfo, error) {
	library.Lock()
	defer library.Unlock()
	if library.info != nil {
		if explicit != "" && !libfind.SamePath(explicit, library.info.Path) {
			return nil, fmt.Errorf("ucx: cannot load %s: this process already uses %s; there is one libucp per "+
				"process", explicit, library.info.Path)
		}
		return library.info, nil
	}
	if !ucp.Cgo {
		return nil, ucp.ErrNoCgo
	}
	guardSignals()
	info, err := openFirst(explicit)
	if err != nil {
		return nil, err // not cached: the user may install the library and try again
	}
	ucp.MarkCloseOnExec()
	installDeviceHooks()
	library.info = info
	return info, nil
}

// guardSignals keeps UCX 1.13 from replacing Go's SIGSEGV handler, which would turn every nil dereference into a crash.
// The variable must be set in C's environment before dlopen.
func guardSignals() {
	if v, set := os.LookupEnv("UCX_ERROR_SIGNALS"); set && v != "" {
		logf("overriding UCX_ERROR_SIGNALS=%q with an empty value: UCX's handlers would replace Go's, and a nil "+
			"dereference would end the process instead of panicking", v)
	}
	ucp.Setenv("UCX_ERROR_SIGNALS", "")
}

func installDeviceHooks() {
	if h, ok := hooks.Get(); ok {
		ucp.DeviceHooks(h.SetCurrent, h.EventQuery)
	}
}

func openFirst(explicit string) (*LibraryInfo, error) {
	if explicit == "" {
		explicit = os.Getenv("MILLSTREAM_UCX_LIBRARY")
	}
	if explicit != "" {
		if err := ucp.Load(explicit, false); err != nil {
			return nil, fmt.Errorf("ucx: cannot load libucp: %w (from MILLSTREAM_UCX_LIBRARY or Config.Library: give "+
				"the path of a libucp.so.0)", err)
		}
		return describeLibrary(nil)
	}
	if ucp.Load(libfind.BareName, true) == nil {
		return describeLibrary(nil)
	}
	var errs []error
	var passed []string
	cands := libfind.Candidates()
	for i, c := range cands {
		err := ucp.Load(c, false)
		if err == nil {
			return describeLibrary(append(passed, libfind.Later(c, cands[i+1:])...))
		}
		errs = append(errs, err)
		if c != libfind.BareName {
			passed = append(passed, err.Error())
		}
	}
	return nil, fmt.Errorf("ucx: no usable libucp found; install it with `apt-get install libucx0` or `pip install "+
		"libucx-cu12`, or set MILLSTREAM_UCX_LIBRARY to a libucp.so.0 (%w)", errors.Join(errs...))
}

func describeLibrary(passed []string) (*LibraryInfo, error) {
	major, minor, release := ucp.Version()
	path := ucp.LoadedPath()
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return &LibraryInfo{
		Path: path, Version: fmt.Sprintf("%d.%d.%d", major, minor, release), Major: major, Minor: minor,
		CUDA: libfind.HasModule(path, "cuda"), RDMA: libfind.HasModule(path, "ib"), PassedOver: passed,
	}, nil
}
