package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"go.millstream.dev/internal/task/internal/place"
)

// Func is a registered function without its types, as a worker runs it.
type Func struct {
	name      string
	signature string
	params    []reflect.Type
	result    reflect.Type
	where     string // file:line of the registration
	run       func(ctx context.Context, c *Call, deps []*Value) (any, error)
	method    func(ctx context.Context, state any, args []*Value) (any, error) // nil for functions
}

// Name returns the name under which the function is registered.
func (f *Func) Name() string { return f.name }

// Params returns the number of parameters, without the context.
func (f *Func) Params() int { return len(f.params) }

// Result returns the type of the result.
func (f *Func) Result() reflect.Type { return f.result }

// funcs is the registry of the process. Initializers add functions, which are looked up for every task: after Freeze
// without a lock.
var funcs struct {
	sync.Mutex // owns byName and hash until it is frozen
	byName     map[string]*Func
	hash       string // "" if a function was added since it was computed
	frozen     atomic.Pointer[frozenFuncs]
}

type frozenFuncs struct {
	byName map[string]*Func
	hash   string
}

// register adds a function. It panics at the start of the program on mistakes that would otherwise show in the cluster.
func register(f *Func) *Func {
	f.where = place.Caller()
	if f.name == "" {
		panic("task: function registered at " + f.where + " has no name")
	}
	if len(f.name) > MaxName {
		panic(fmt.Sprintf("task: name of the function registered at %s has %d bytes, maximum is %d", f.where,
			len(f.name), MaxName))
	}
	if err := checkTypes(f); err != nil {
		panic(fmt.Sprintf("task: function %q registered at %s: %v", f.name, f.where, err))
	}
	f.signature = signature(f.params, f.result)
	for _, t := range f.params {
		noteType(t)
	}
	noteType(f.result)
	funcs.Lock()
	defer funcs.Unlock()
	if funcs.frozen.Load() != nil {
		panic(fmt.Sprintf("task: function %q registered at %s after millstream.Main, when the registry was frozen; "+
			"register functions in package-level variables, so that all processes of the cluster have the same ones",
			f.name, f.where))
	}
	if old := funcs.byName[f.name]; old != nil {
		panic(fmt.Sprintf("task: function %q registered twice, at %s and at %s; rename one of them", f.name,
			old.where, f.where))
	}
	if funcs.byName == nil {
		funcs.byName = make(map[string]*Func)
	}
	funcs.byName[f.name] = f
	funcs.hash = ""
	return f
}

// MaxName is the maximum length of the name of a function in bytes.
const MaxName = 1024

// Freeze ends registration: later attempts panic. millstream.Main calls it. It may be called more than once.
func Freeze() {
	funcs.Lock()
	defer funcs.Unlock()
	if funcs.frozen.Load() == nil {
		funcs.frozen.Store(&frozenFuncs{byName: maps.Clone(funcs.byName), hash: hashOf(funcs.byName)})
	}
}

// Frozen reports whether Freeze was called.
func Frozen() bool { return funcs.frozen.Load() != nil }

// Lookup returns the function with this name.
func Lookup(name string) (*Func, bool) {
	if z := funcs.frozen.Load(); z != nil {
		f, ok := z.byName[name]
		return f, ok
	}
	funcs.Lock()
	defer funcs.Unlock()
	f, ok := funcs.byName[name]
	return f, ok
}

// lookupBytes is Lookup that does not allocate a string for the name.
func lookupBytes(name []byte) (*Func, bool) {
	if z := funcs.frozen.Load(); z != nil {
		f, ok := z.byName[string(name)]
		return f, ok
	}
	funcs.Lock()
	defer funcs.Unlock()
	f, ok := funcs.byName[string(name)]
	return f, ok
}

// Names returns the names of the functions, sorted.
func Names() []string {
	funcs.Lock()
	defer funcs.Unlock()
	return slices.Sorted(maps.Keys(funcs.byName))
}

// Hash returns a hash of all names and signatures with the build of the program: 32 hex digits, "-" and BuildID.
// Workers advertise it and graphs contain it: a task is sent only to workers with the same hash, so that no worker of
// an older build runs functions whose code has changed. See SplitHash.
func Hash() string {
	if z := funcs.frozen.Load(); z != nil {
		return z.hash
	}
	funcs.Lock()
	defer funcs.Unlock()
	if funcs.hash == "" {
		funcs.hash = hashOf(funcs.byName)
	}
	return funcs.hash
}

func hashOf(byName map[string]*Func) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		fmt.Fprintf(h, "%d:%s %s\n", len(name), name, byName[name].signature)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]) + "-" + BuildID()
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
