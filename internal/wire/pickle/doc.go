// Package pickle reads Python's pickles into an inert tree and writes pickles that Python
// reads. It never executes one: a pickle is a program, and what it would import and call is
// only noted down.
//
// # Reading
//
// [Load] reads protocols 0 to 5, with out-of-band buffers, from bytes that may come from
// anyone: [Limits] bound what they cost. What comes out is a [Value]: plain data as plain Go
// types, a call as an [*Object] that says what would be called and with what.
//
//	tree, err := pickle.Load(frames[0], frames[1:], pickle.Limits{})
//	fmt.Println(pickle.Repr(tree))
//
// [Decode] turns a tree into Go values where it knows how: dates, arrays, exceptions and
// the like, by a list of names. What it does not know stays a node, and can be sent on:
//
//	v, err := pickle.Decode(tree)
//	switch v := v.(type) {
//	case *pickle.Array:     // numpy
//	case time.Time:         // datetime
//	case *pickle.Exception: // it is an error of Go, too
//	case *pickle.Object:    // something else of Python's
//	}
//
// Bytes and buffers are not copied: they borrow from what was loaded, and [Clone] detaches
// a tree. A tree may have shared parts and cycles, as Python's objects may; [Walk], [Equal]
// and [Repr] know that.
//
// # Writing
//
// [Append] writes Go values and trees, also those that were just read, with shared parts
// and cycles as they were:
//
//	data, err := pickle.Append(nil, []any{1, "two", time.Now()}, pickle.Options{})
//
// Calls are made of [Global] names: pickle.Call(pickle.Global{"decimal", "Decimal"}, "1.5").
// Arrays and [Buffer] values travel out of band if [Options] have a place for them.
//
// # Dask
//
// [AsTask] reads the nodes of Dask's graphs, as workers receive them, [FuncName] names a
// function that cannot be run here, [References] finds what a task needs. [NewTask],
// [NewTaskRef] and [NewGraph] make a graph that Dask's scheduler takes. An error of Go is
// written as a Python exception; [NewException] chooses its class. [Traceback] reads the
// tracebacks that come with Dask's errors.
package pickle
