package memory

import "sync"

// sizes has the largest results of functions, to predict the size of the next one: room for it is made before it
// exists. Any goroutine may use it.
type sizes struct {
	mu      sync.Mutex
	largest map[string]int64
}

// maxFunctions bounds the number of functions in the table. When it is exceeded, the table is cleared.
const maxFunctions = 10_000

// observe records the size of a result. The recorded maximum decays slowly: reserving too much room costs little, too
// little may terminate the worker.
func (e *sizes) observe(function string, nbytes int64) {
	if nbytes < largeResult {
		nbytes = 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old, known := e.largest[function]
	if !known && nbytes == 0 {
		return
	}
	if e.largest == nil || len(e.largest) >= maxFunctions {
		e.largest = map[string]int64{}
	}
	size := max(nbytes, old-old/8)
	if size < largeResult {
		delete(e.largest, function)
	} else {
		e.largest[function] = size
	}
}

// expected returns the predicted size of the next result of a function; 0 if results are small or unknown.
func (e *sizes) expected(function string) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.largest[function]
}
