package rules

import "testing"

func TestSentinels(t *testing.T) {
	const text = `// Package mem is here.
package mem

import "errors"

var (
	// ErrGood is returned by Alloc.
	ErrGood = errors.New("mem: no more")
	// ErrBare is returned by Free.
	ErrBare = errors.New("no less")
	// ErrVague is a bad thing.
	ErrVague = errors.New("mem: vague")
	errOwn   = errors.New("anything")
)

// ErrAlone is returned by Pool.
var ErrAlone = closed.New("pool is closed")
`
	expect(t, checkFiles(t, map[string]string{"mem/a.go": text, "internal/x/a.go": text}),
		`mem/a.go:10: the text of ErrBare must begin with "mem: "`,
		`mem/a.go:12: document ErrVague as "ErrVague is returned by …"`,
		`mem/a.go:17: the text of ErrAlone must begin with "mem: "`)
}
