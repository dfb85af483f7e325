// Package pickle reads Python's pickles into an inert tree and writes pickles that Python reads. It never executes one:
// a pickle is a program, whose imports and calls are only recorded.
//
// # Reading
//
// [Load] reads protocols 0 to 5, with out-of-band buffers, from untrusted bytes: [Limits] bound their cost. The result
// is a [Value]: plain data as plain Go types, a call as an [*Object] with the function and its arguments.
//
//	tree, err := pickle.Load(frames[0], frames[1:], pickle.Limits{})
//	fmt.Println(pickle.Repr(tree))
//
// [Decode] converts a tree to Go values where they are supported: dates, arrays, exceptions and the like, by a list of
// names. Other values stay nodes, and can be sent on:
//
//	v, err := pickle.Decode(tree)
//	switch v := v.(type) {
//	case *pickle.Array:     // numpy
//	case time.Time:         // datetime
//	case *pickle.Exception: // also a Go error
//	case *pickle.Object:    // any other Python object
//	}
//
// Bytes and buffers are not copied: they borrow from the input; [Clone] detaches a tree. A tree may have shared parts
// and cycles, like Python's objects; [Walk], [Equal] and [Repr] support that.
//
// # Writing
//
// [Append] writes Go values and trees, also those of Load, and preserves shared parts and cycles:
//
//	data, err := pickle.Append(nil, []any{1, "two", time.Now()}, pickle.Options{})
//
// Calls are made of [Global] names: pickle.Call(pickle.Global{"decimal", "Decimal"}, "1.5"). Arrays and [Buffer] values
// are sent out of band if [Options].Buffers is set.
//
// # Dask
//
// [AsTask] reads the nodes of Dask's graphs, as received by workers, [FuncName] returns the name of a function that
// cannot be run here, [References] returns the keys that a task needs. [NewTask], [NewTaskRef] and [NewGraph] create a
// graph for Dask's scheduler. A Go error is written as a Python exception; [NewException] chooses its class.
// [Traceback] reads the tracebacks of Dask's errors.
package pickle
