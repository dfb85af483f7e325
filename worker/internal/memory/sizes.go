package memory

import "sync"

// sizes knows how large the results of functions were, to tell how large the next one will
// be: room for it is made before it is there. Any goroutine may use it.
type sizes struct {
	mu      sync.Mutex
	largest map[string]int64
}

// maxFunctions is how many functions are remembered. A program has no more of them; should one
// make names up, all are forgotten.
const maxFunctions = 10_000

// observe notes the size of a result. The largest ones are forgotten slowly: too much room
// costs little, too little may cost the worker.
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

// of is how large the next result of a function may be; 0 if they are small or unknown.
func (e *sizes) of(function string) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.largest[function]
}
