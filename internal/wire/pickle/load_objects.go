package pickle

import (
	"errors"
)

// object executes the opcodes of names and calls.
func (l *loader) object(op byte) error {
	switch op {
	case opGlobal:
		g, err := l.globalLines()
		if err != nil {
			return err
		}
		return l.push(g)
	case opStackGlobal:
		if len(l.stack)-l.fence < 2 {
			return errUnderflow
		}
		at := len(l.stack) - 2
		module, okm := l.stack[at].(string)
		name, okn := l.stack[at+1].(string)
		if !okm || !okn {
			return errors.New("a global's module and name are " + TypeName(l.stack[at]) + " and " +
				TypeName(l.stack[at+1]) + ", not str")
		}
		l.stack = l.stack[:at]
		return l.push(l.global(module, name))
	case opReduce, opNewObj, opNewObjEx:
		return l.call(op)
	case opBuild:
		return l.build()
	case opInst:
		g, err := l.globalLines()
		if err != nil {
			return err
		}
		args, err := l.popMark()
		if err != nil {
			return err
		}
		return l.instance(g, args)
	case opObj:
		args, err := l.popMark()
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return errUnderflow
		}
		return l.instance(args[0], args[1:])
	case opPersID:
		line, err := l.line()
		if err != nil {
			return err
		}
		if !ascii(line) {
			return errors.New("a persistent id of protocol 0 is not ASCII")
		}
		return l.pushContainer(&PersistentID{ID: line})
	default: // opBinPersID
		id, err := l.pop()
		if err != nil {
			return err
		}
		return l.pushContainer(&PersistentID{ID: id})
	}
}

// globalLines reads module and name, a line each.
func (l *loader) globalLines() (Global, error) {
	module, err := l.line()
	if err != nil {
		return Global{}, err
	}
	name, err := l.line()
	if err != nil {
		return Global{}, err
	}
	if module == "" || name == "" {
		return Global{}, errors.New("a global without module or name")
	}
	if !validString(module) || !validString(name) {
		return Global{}, errors.New("a global's name is not UTF-8")
	}
	return l.global(module, name), nil
}

// global converts names of Python 2, which protocols 0 to 2 use, to those of Python 3.
func (l *loader) global(module, name string) Global {
	if l.proto < 3 {
		return python3Name(module, name)
	}
	return Global{module, name}
}

// call implements REDUCE, NEWOBJ and NEWOBJ_EX.
func (l *loader) call(op byte) error {
	n := 2
	if op == opNewObjEx {
		n = 3
	}
	if len(l.stack)-l.fence < n {
		return errUnderflow
	}
	at := len(l.stack) - n
	o := &Object{Func: l.stack[at]}
	if err := callable(o.Func); err != nil {
		return err
	}
	var ok bool
	if o.Args, ok = l.stack[at+1].(Tuple); !ok {
		return errors.New("the arguments are a " + TypeName(l.stack[at+1]) + ", not a tuple")
	}
	if op != opReduce {
		o.Kind = NewObj
	}
	if op == opNewObjEx {
		if o.Kwargs, ok = l.stack[at+2].(*Dict); !ok {
			return errors.New("the keyword arguments are a " + TypeName(l.stack[at+2]) + ", not a dict")
		}
	}
	l.stack = l.stack[:at]
	return l.pushContainer(o)
}

// callable rejects plain data as a function or class.
func callable(v Value) error {
	switch v.(type) {
	case Global, *Object, *PersistentID:
		return nil
	}
	return errors.New("a " + TypeName(v) + " cannot be called")
}

// instance implements INST and OBJ of protocols 0 and 1: without arguments the class is not called.
func (l *loader) instance(class Value, args []Value) error {
	if err := callable(class); err != nil {
		return err
	}
	o := &Object{Func: class, Args: append(Tuple{}, args...)}
	if len(args) == 0 {
		o.Kind = NewObj
	}
	return l.pushContainer(o)
}

// build implements BUILD: the state is recorded with the object.
func (l *loader) build() error {
	if len(l.stack)-l.fence < 2 {
		return errUnderflow
	}
	state, err := l.pop()
	if err != nil {
		return err
	}
	target, err := l.top()
	if err != nil {
		return err
	}
	if o, ok := target.(*Object); ok {
		o.Steps = append(o.Steps, Step{Kind: Build, Value: state})
		return nil
	}
	if state == nil {
		return nil // Python does nothing then, whatever the target
	}
	return errors.New("a " + TypeName(target) + " has no state to set")
}
