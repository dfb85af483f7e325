package pygraph

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/dask/gotask"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/internal/wire/pickled"
	"go.millstream.dev/wire"
)

// A Dask worker opens a task's pickle while it reads the scheduler's messages. If that raises an exception, the worker
// loses its connection and the task is sent to the next worker. Dask's scheduler has opened the pickle before, so that
// the client receives the error instead. Pickles that are split here must therefore be known to open: they call only
// functions that cannot fail, and the names that they import are returned (Graph.Globals), so that the scheduler can
// compare them with those that Python has opened already.

// untrusted bounds the size of a client's graph after decompression.
var untrusted = wire.DecodeOptions{MaxRatio: 256}

// Globals returns the names that an expression imports, as in Graph.Globals.
func Globals(expr *wire.Serialized, lim Limits) ([]string, error) {
	p, err := pickled.Of(expr, untrusted)
	if err != nil {
		return nil, err
	}
	lim = lim.withDefaults()
	tree, err := pickled.Tree(p, pickle.Limits{Nodes: lim.Values, Memo: lim.Values})
	if err != nil {
		return nil, err
	}
	var s survey
	_ = s.look(tree, func(*pickle.Object) error { return nil })
	return s.names(), nil
}

// survey is one pass over a whole tree.
type survey struct {
	seen    map[any]struct{} // containers
	globals map[pickle.Global]struct{}
	code    bool
}

// look visits each node once, in no order, and returns the first error of object.
func (s *survey) look(tree pickle.Value, object func(*pickle.Object) error) error {
	s.seen, s.globals = make(map[any]struct{}), make(map[pickle.Global]struct{})
	todo := []pickle.Value{tree}
	first := func(id any) bool {
		if _, there := s.seen[id]; there {
			return false
		}
		s.seen[id] = struct{}{}
		return true
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch x := v.(type) {
		case pickle.Global:
			s.globals[x] = struct{}{}
		case pickle.Tuple:
			if len(x) > 0 && first(&x[0]) {
				todo = append(todo, x...)
			}
		case *pickle.List:
			if first(x) {
				todo = append(todo, x.Items...)
			}
		case *pickle.Set:
			if first(x) {
				todo = append(todo, x.Items...)
			}
		case *pickle.FrozenSet:
			if first(x) {
				todo = append(todo, x.Items...)
			}
		case *pickle.Dict:
			if first(x) {
				for k, v := range x.All() {
					todo = append(todo, k, v)
				}
			}
		case *pickle.Object:
			if !first(x) {
				continue
			}
			s.imports(x)
			if err := object(x); err != nil {
				return err
			}
			todo = append(todo, x.Func)
			todo = append(todo, x.Args...)
			if x.Kwargs != nil {
				todo = append(todo, x.Kwargs)
			}
			for _, step := range x.Steps {
				todo = append(todo, step.Key, step.Value)
			}
		case *pickle.PersistentID:
			if err := object(&pickle.Object{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// imports records the names that a call looks up.
func (s *survey) imports(o *pickle.Object) {
	g, _ := o.Class()
	if o.Kind != pickle.Reduce {
		return
	}
	switch {
	case g.Name == "subimport" && strings.HasPrefix(g.Module, "cloudpickle") && len(o.Args) == 1:
		if name, ok := o.Args[0].(string); ok {
			s.globals[pickle.Global{Module: name}] = struct{}{}
		}
	case g.Is("builtins", "getattr") && len(o.Args) == 2:
		owner, isGlobal := o.Args[0].(pickle.Global)
		if name, ok := o.Args[1].(string); ok && isGlobal {
			s.globals[pickle.Global{Module: owner.Module, Name: owner.Name + "." + name}] = struct{}{}
		}
	}
}

// names returns the globals that a worker may lack, each once, sorted.
func (s *survey) names() (out []string) {
	for g := range s.globals {
		switch {
		case everywhere[root(g.Module)] && !(root(g.Module) == "builtins" && strings.Contains(g.Name, ".")):
		case g.Name == "":
			out = append(out, g.Module)
		default:
			out = append(out, g.Module+"\x00"+g.Name)
		}
	}
	slices.Sort(out)
	return out
}

func root(module string) string {
	name, _, _ := strings.Cut(module, ".")
	return name
}

// everywhere are packages that each worker has, because Dask needs them.
var everywhere = set("builtins", "operator", "_operator", "math", "_math", "types", "functools", "_functools",
	"itertools", "collections", "_collections",
	"datetime", "_datetime", "decimal", "_decimal", "fractions", "uuid", "pathlib", "copyreg", "_codecs", "time",
	"random", "os", "posix", "sys", "json", "re",
	"string", "struct", "_struct", "threading", "hashlib", "_hashlib", "numpy", "dask", "distributed", "cloudpickle")

func set(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

// calls are the functions and classes whose calls in valid pickles do not fail.
var calls = map[string]map[string]bool{
	"dask._expr":         set("Expr._reconstruct"),
	"dask._task_spec":    set("Task", "Alias", "DataNode", "TaskRef", "List", "Tuple", "Set", "Dict"),
	"distributed.client": set("Future"),
	// Functions of cloudpickle only; classes may run code when they are created.
	"cloudpickle.cloudpickle": set("_make_function", "_builtin_type", "_make_cell", "_make_empty_cell", "subimport"),
	"builtins": set("set", "frozenset", "bytearray", "complex", "slice", "range", "list", "dict",
		"tuple", "bytes", "int", "float", "str", "bool", "object"),
	"functools":   set("partial"),
	"operator":    set("itemgetter", "attrgetter", "methodcaller"),
	"collections": set("OrderedDict", "defaultdict", "deque", "Counter"),
	"datetime":    set("datetime", "date", "time", "timedelta", "timezone"),
	"decimal":     set("Decimal"),
	"fractions":   set("Fraction"),
	"uuid":        set("UUID"),
	"pathlib":     set("PosixPath", "PurePosixPath", "PureWindowsPath"),
	"_codecs":     set("encode"),
	"numpy":       set("dtype", "ndarray"),
}

// numpyCalls are in modules whose names depend on numpy's version.
var numpyCalls = map[string]map[string]bool{
	"multiarray": set("_reconstruct", "scalar"),
	"numeric":    set("_frombuffer"),
	"_core":      set("_ufunc_reconstruct"),
	"core":       set("_ufunc_reconstruct"),
}

// safe returns an error for a call that could fail when it is opened.
func (s *survey) safe(o *pickle.Object) error {
	for _, step := range o.Steps {
		if step.Kind == pickle.SideCall {
			if g, ok := step.Key.(pickle.Global); !ok || !strings.HasPrefix(g.Module, "cloudpickle") ||
				g.Name != "_function_setstate" {
				return needsPython("a call of %s", pickle.TypeName(step.Key))
			}
		}
	}
	switch f := o.Func.(type) {
	case pickle.Global:
		if calls[f.Module][f.Name] {
			return nil
		}
		if root(f.Module) == "numpy" && numpyCalls[f.Module[strings.LastIndexByte(f.Module, '.')+1:]][f.Name] {
			return nil
		}
		if f.Is("builtins", "getattr") && len(o.Args) == 2 {
			if _, ok := o.Args[0].(pickle.Global); ok {
				return nil // listed in Globals
			}
		}
		if f.Module == "builtins" && !strings.HasPrefix(f.Name, "Unicode") &&
			(strings.HasSuffix(f.Name, "Error") || strings.HasSuffix(f.Name, "Exception")) {
			return nil
		}
		if _, ok := gotask.FromFunc(o); ok {
			return nil // a stub, which evaluates a known text
		}
		return needsPython("a call of %s", f)
	case *pickle.Object:
		// _builtin_type("CodeType")(…): code, for Python of one version
		g, _ := f.Class()
		if g.Is("cloudpickle.cloudpickle", "_builtin_type") && len(f.Args) == 1 &&
			f.Args[0] == pickle.Value("CodeType") {
			s.code = true
			return nil
		}
	}
	return needsPython("a call of %s", pickle.TypeName(o.Func))
}

// survey checks that a tree can be opened, and records the names that this needs.
func (s *splitter) survey(tree pickle.Value) error {
	var look survey
	if err := look.look(tree, look.safe); err != nil {
		return err
	}
	s.globals, s.code = look.names(), look.code
	return nil
}
