//go:build !invariants

package mem

const invariants = false

// viewBatch is how many views of pool buffers are allocated at a time.
const viewBatch = 32

// debugState is empty without the build tag invariants.
type debugState struct{}

func (*debugState) born(*Buffer) {}
func (*debugState) died()        {}

func (*debugState) misuse(op string) {
	panic("mem: " + op + " of a released Buffer (build with -tags invariants for the stack of its release)")
}

func poison([]byte) {}
