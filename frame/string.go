package frame

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// String describes the frame in one line: its partitions and its columns with their types. It does not wait for
// anything.
func (f *Frame) String() string { return describe("Frame", f.schema, len(f.parts), f.released.Load()) }

// String describes the frame in one line: see Frame.String.
func (f *DeviceFrame) String() string {
	return describe("DeviceFrame", f.schema, len(f.parts), f.released.Load())
}

func describe(what string, s *arrow.Schema, partitions int, released bool) string {
	const most = 20 // columns
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %d partition", what, partitions)
	if partitions != 1 {
		b.WriteByte('s')
	}
	fmt.Fprintf(&b, ", %d column", s.NumFields())
	if s.NumFields() != 1 {
		b.WriteByte('s')
	}
	for i, f := range s.Fields() {
		switch i {
		case 0:
			b.WriteString(": ")
		default:
			b.WriteString(", ")
		}
		if i == most {
			b.WriteString("…")
			break
		}
		fmt.Fprintf(&b, "%s %v", f.Name, f.Type)
	}
	if released {
		b.WriteString(" (released)")
	}
	return b.String()
}
