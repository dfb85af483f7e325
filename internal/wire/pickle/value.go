package pickle

import "fmt"

// Value is one node of the inert tree that Load returns and Append accepts. Its dynamic type is one of
//
//	nil           None
//	bool          bool
//	int64         int that fits
//	*big.Int      int that does not
//	float64       float
//	string        str, as UTF-8; a lone surrogate is kept as its three bytes
//	[]byte        bytes; borrows from what was loaded
//	*ByteArray    bytearray
//	*List         list
//	Tuple         tuple
//	*Dict         dict
//	*Set          set
//	*FrozenSet    frozenset
//	Global        a class, function or other thing that is known by its name
//	*Object       the result of a call, never made: what would be called, and with what
//	*Buffer       a buffer, out of band
//	*PersistentID a reference that only the sender's and receiver's agreement explains
//
// One object in Python is one node here: pointers, and the slices of Tuple and []byte, are shared as in Python. So a
// tree may be a graph with shared parts and with cycles. Equal, Repr, Walk, Decode and Append support that; other code
// should use Walk.
type Value = any

// ByteArray is Python's bytearray. Data borrows from the input of Load.
type ByteArray struct {
	Data []byte
}

// List is Python's list.
type List struct {
	Items []Value
}

// Tuple is Python's tuple.
type Tuple []Value

// Set is Python's set, in the order in which it was written. Items that Go can determine to be equal occur once.
type Set struct {
	Items []Value
}

// FrozenSet is Python's frozenset, see Set.
type FrozenSet struct {
	Items []Value
}

// Global names an object of a Python module: a class, a function, a constant. Name may be dotted ("Expr._reconstruct").
// Nothing is looked up.
type Global struct {
	Module, Name string
}

// String returns module.name.
func (g Global) String() string { return g.Module + "." + g.Name }

// Is reports whether the global is module.name.
func (g Global) Is(module, name string) bool { return g.Module == module && g.Name == name }

// Buffer is memory that is sent outside the pickle (protocol 5).
type Buffer struct {
	// Data is the buffer passed to Load, not a copy.
	Data []byte
	// Index is the buffer's index in the argument of Load; -1 for one created in Go.
	Index int
	// ReadOnly reports whether Python must not write to it: bytes rather than bytearray.
	ReadOnly bool
}

// PersistentID is a reference to an object outside the pickle, written by a pickler with a persistent_id.
type PersistentID struct {
	ID Value
}

// Kind is the way in which an Object would be created.
type Kind uint8

// The kinds of objects.
const (
	// Reduce is Func(*Args).
	Reduce Kind = iota
	// NewObj is Func.__new__(Func, *Args, **Kwargs); Func is the class.
	NewObj
)

// Object is the result of a call that is never made: Func, Args and Kwargs are recorded, and Steps are the operations
// on the result.
type Object struct {
	Kind Kind
	// Func is the function or class: a Global, or an Object if it is itself the result of a call, as cloudpickle does
	// for functions of __main__.
	Func Value
	// Args are the arguments.
	Args Tuple
	// Kwargs are keyword arguments of a NewObj, nil if there are none.
	Kwargs *Dict
	// Steps are the operations on the object after its creation, in order.
	Steps []Step
}

// StepKind is the kind of a Step.
type StepKind uint8

// The kinds of steps.
const (
	// Build sets the state of the object: __setstate__, or an update of its __dict__.
	Build StepKind = iota
	// AppendItem appends Value, as to a list.
	AppendItem
	// SetItem sets Key to Value, as in a dict.
	SetItem
	// AddItem adds Value, as to a set.
	AddItem
	// SideCall calls Key with the object and the items of Value, a Tuple, for its effect only: Key(object, *Value).
	// cloudpickle sets the state of functions and classes this way.
	SideCall
)

// Step is one operation on an object after its creation.
type Step struct {
	Kind       StepKind
	Key, Value Value
}

// Call returns the node of fn(*args).
func Call(fn Value, args ...Value) *Object { return &Object{Kind: Reduce, Func: fn, Args: args} }

// New returns the node of class.__new__(class, *args).
func New(class Value, args ...Value) *Object { return &Object{Kind: NewObj, Func: class, Args: args} }

// WithState adds a Build step and returns the object.
func (o *Object) WithState(state Value) *Object {
	o.Steps = append(o.Steps, Step{Kind: Build, Value: state})
	return o
}

// Class returns the global that creates the object, and whether there is one.
func (o *Object) Class() (Global, bool) {
	g, ok := o.Func.(Global)
	return g, ok
}

// State returns the state of the last Build step, and whether there is one.
func (o *Object) State() (Value, bool) {
	for i := len(o.Steps) - 1; i >= 0; i-- {
		if o.Steps[i].Kind == Build {
			return o.Steps[i].Value, true
		}
	}
	return nil, false
}

// Items returns the items that are appended or added to the object.
func (o *Object) Items() []Value {
	var items []Value
	for _, s := range o.Steps {
		if s.Kind == AppendItem || s.Kind == AddItem {
			items = append(items, s.Value)
		}
	}
	return items
}

// Pairs returns the items that are set in the object, as a dict.
func (o *Object) Pairs() *Dict {
	d := new(Dict)
	for _, s := range o.Steps {
		if s.Kind == SetItem {
			d.Set(s.Key, s.Value)
		}
	}
	return d
}

// TypeName returns a node's Python type for messages: "list", "numpy.ndarray object", ….
func TypeName(v Value) string {
	if v == nil {
		return "None"
	}
	if name, ok := plainNames[fmt.Sprintf("%T", v)]; ok {
		return name
	}
	switch x := v.(type) {
	case Global:
		return "global " + x.String()
	case *Object:
		if g, ok := x.Class(); ok {
			return g.String() + " object"
		}
		return "object"
	}
	return fmt.Sprintf("%T", v)
}

var plainNames = map[string]string{
	"bool": "bool", "int64": "int", "*big.Int": "int", "float64": "float", "string": "str", "[]uint8": "bytes",
	"*pickle.ByteArray": "bytearray", "*pickle.List": "list", "pickle.Tuple": "tuple", "*pickle.Dict": "dict",
	"*pickle.Set": "set", "*pickle.FrozenSet": "frozenset", "*pickle.Buffer": "buffer",
	"*pickle.PersistentID": "persistent id",
}
