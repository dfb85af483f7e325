package wire

import (
	"sync"

	"go.millstream.dev/internal/wire/pickle"
)

// Classes that Go supports, by the names under which Python pickles them.
var (
	classBytes     = pickle.Global{Module: "builtins", Name: "bytes"}
	classByteArray = pickle.Global{Module: "builtins", Name: "bytearray"}
	classNDArray   = pickle.Global{Module: "numpy", Name: "ndarray"}
	// The codec of internal/wire/arrowipc reads these two.
	classTable       = pickle.Global{Module: "pyarrow.lib", Name: "Table"}
	classRecordBatch = pickle.Global{Module: "pyarrow.lib", Name: "RecordBatch"}
	classCuPy        = pickle.Global{Module: "cupy", Name: "ndarray"}
	classNumba       = pickle.Global{Module: "numba.cuda.cudadrv.devicearray", Name: "DeviceNDArray"}
	classRMM         = pickle.Global{Module: "rmm.pylibrmm.device_buffer", Name: "DeviceBuffer"}
)

var allClasses = []pickle.Global{classBytes, classByteArray, classNDArray, classTable, classRecordBatch, classCuPy,
	classNumba, classRMM}

// knownClasses maps their pickles to classes, so that common ones are not parsed: those of this package, and those that
// CPython writes in protocols 4 and 5.
var knownClasses = sync.OnceValue(func() map[string]pickle.Global {
	m := make(map[string]pickle.Global)
	for _, g := range allClasses {
		m[string(classPickle(g))] = g
		for _, proto := range []byte{4, 5} {
			m[string(pythonClassPickle(proto, g))] = g
		}
	}
	return m
})

// classPickle returns the pickle of a class.
func classPickle(g pickle.Global) []byte { return pickle.AppendGlobal(nil, g.Module, g.Name) }

// pythonClassPickle returns the same in CPython's form: with a frame, and everything in the memo.
func pythonClassPickle(proto byte, g pickle.Global) []byte {
	const frame, shortUnicode, memoize, stackGlobal, stop = 0x95, 0x8c, 0x94, 0x93, '.'
	body := []byte{shortUnicode, byte(len(g.Module))}
	body = append(append(body, g.Module...), memoize, shortUnicode, byte(len(g.Name)))
	body = append(append(body, g.Name...), memoize, stackGlobal, memoize, stop)
	return append([]byte{0x80, proto, frame, byte(len(body)), 0, 0, 0, 0, 0, 0, 0}, body...)
}

// typeName returns Dask's name of a class in the header's "type", which is for display.
func typeName(g pickle.Global) string {
	if g.Module == "builtins" {
		return g.Name
	}
	return g.Module + "." + g.Name
}
