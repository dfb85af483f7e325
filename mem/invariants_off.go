//go:build !invariants

package mem

const invariants = false

// debugState is empty without the build tag invariants.
type debugState struct{}

func (*debugState) born(*Buffer) {}
func (*debugState) died()        {}

func (*debugState) misuse(op string) {
	panic("mem: " + op + " of a released Buffer (build with -tags invariants for the stack of its release)")
}

func poison([]byte) {}
