package worker

import "sync"

// expect knows how large the results of functions were, to tell how large the next one will
// be: room for it is made before it is there. Any goroutine may use it.
type expect struct {
	mu    sync.Mutex
	sizes map[string]int64
}

// maxExpect is how many functions are remembered. A program has no more of them; should one
// make names up, they begin anew.
const maxExpect = 10_000

// observe notes the size of a result. The largest ones are forgotten slowly: too much room
// costs little, too little may cost the worker.
func (e *expect) observe(function string, nbytes int64) {
	if nbytes < largeResult {
		nbytes = 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old, known := e.sizes[function]
	if !known && nbytes == 0 {
		return
	}
	if e.sizes == nil || len(e.sizes) >= maxExpect {
		e.sizes = map[string]int64{}
	}
	size := max(nbytes, old-old/8)
	if size < largeResult {
		delete(e.sizes, function)
	} else {
		e.sizes[function] = size
	}
}

// of is how large the next result of a function may be; 0 if they are small or unknown.
func (e *expect) of(function string) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sizes[function]
}
