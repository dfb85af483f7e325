package pickle

// isCloudpickle compares with names of cloudpickle, which has been a module and a package.
func isCloudpickle(g Global, name string) bool {
	return g.Name == name && (g.Module == "cloudpickle.cloudpickle" || g.Module == "cloudpickle.cloudpickle_fast" ||
		g.Module == "cloudpickle")
}

// FuncName returns the name of a function for logs and prefixes of keys, and reports whether Python could import it by
// that name: "operator.add", or for functions that cloudpickle sends with their code "__main__.f". functools.partial,
// and compositions of toolz, have the name of the inner function, methodcaller that of the method, other objects that
// of their class. It returns "" for values that cannot be called.
func FuncName(v Value) (name string, importable bool) {
	for range 16 { // partials of partials
		switch x := v.(type) {
		case Global:
			return x.String(), true
		case *Object:
			if name, ok := codeName(x); ok {
				return name, false
			}
			if name, ok := className(x); ok {
				return name, false
			}
			inner, ok := wrapped(x)
			if !ok {
				return instanceName(x), false
			}
			v = inner
		default:
			return "", false
		}
	}
	return "", false
}

// wrapped returns the function inside a partial.
func wrapped(o *Object) (Value, bool) {
	g, ok := o.Class()
	if !ok || len(o.Args) == 0 {
		return nil, false
	}
	switch {
	case g.Is("functools", "partial"), g.Is("builtins", "getattr"),
		g.Is("toolz.functoolz", "Compose"), g.Is("toolz.functoolz", "curry"):
		if len(o.Args) == 2 && g.Is("builtins", "getattr") { // a method of a class
			class, ok1 := o.Args[0].(Global)
			name, ok2 := o.Args[1].(string)
			return Global{class.Module, class.Name + "." + name}, ok1 && ok2
		}
		return o.Args[0], true
	}
	return nil, false
}

// instanceName returns the name of an object that is called like a function.
func instanceName(o *Object) string {
	g, ok := o.Class()
	if !ok {
		return ""
	}
	if (g.Is("dask.utils", "methodcaller") || g.Is("operator", "methodcaller")) && len(o.Args) > 0 {
		if name, ok := o.Args[0].(string); ok {
			return name
		}
	}
	return g.String()
}

// className returns the name of a class that cloudpickle sends: _make_skeleton_class(type, name, bases, {"__module__":
// …}, …).
func className(o *Object) (string, bool) {
	if g, _ := o.Class(); !isCloudpickle(g, "_make_skeleton_class") || len(o.Args) < 4 {
		return "", false
	}
	name, ok := o.Args[1].(string)
	kwargs, _ := o.Args[3].(*Dict)
	if module, ok := stringOf(kwargs, "__module__"); ok {
		name = module + "." + name
	}
	return name, ok
}

// codeName returns the name of a function that cloudpickle sends: the name that is set after its creation, and
// otherwise that of its code.
func codeName(o *Object) (string, bool) {
	g, _ := o.Class()
	if !isCloudpickle(g, "_make_function") && !isCloudpickle(g, "_make_skel_func") {
		return "", false
	}
	module, name := "", ""
	for _, s := range o.Steps {
		if s.Kind != SideCall {
			continue
		}
		rest, _ := s.Value.(Tuple) // ((function's dict, slots),)
		if len(rest) != 1 {
			continue
		}
		state, _ := rest[0].(Tuple)
		for _, part := range state {
			d, ok := part.(*Dict)
			if !ok {
				continue
			}
			for _, at := range []string{"__name__", "__qualname__"} {
				if s, ok := stringOf(d, at); ok {
					name = s
				}
			}
			if s, ok := stringOf(d, "__module__"); ok {
				module = s
			}
		}
	}
	if name == "" && len(o.Args) > 0 {
		name = codeObjectName(o.Args[0])
	}
	if module == "" && len(o.Args) > 1 {
		if globals, ok := o.Args[1].(*Dict); ok {
			module, _ = stringOf(globals, "__name__")
		}
	}
	switch {
	case name == "":
		return "<function>", true
	case module == "":
		return name, true
	}
	return module + "." + name, true
}

func stringOf(d *Dict, key string) (string, bool) {
	v, _ := d.Get(key)
	s, ok := v.(string)
	return s, ok
}

// codeObjectName returns co_name from the arguments of code(): the str after the file's name, which is the second str
// among them.
func codeObjectName(v Value) string {
	code, ok := v.(*Object)
	if !ok {
		return ""
	}
	n := 0
	for _, a := range code.Args {
		if s, ok := a.(string); ok {
			if n++; n == 2 {
				return s
			}
		}
	}
	return ""
}
