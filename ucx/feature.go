package ucx

import (
	"fmt"
	"strings"

	"go.millstream.dev/ucx/internal/ucp"
)

// featureOf is what an operation needs of its context; 0 where any will do. Atomics
// look at the width of their word instead, remote memory at more than one feature.
var featureOf = [ucp.OpCount]Features{
	ucp.OpTagSend: Tag, ucp.OpTagSendSync: Tag, ucp.OpTagRecv: Tag, ucp.OpTagMsgRecv: Tag,
	ucp.OpStreamSend: Stream, ucp.OpStreamRecv: Stream,
	ucp.OpAMSend: ActiveMsg, ucp.OpAMRecv: ActiveMsg,
	ucp.OpPut: RMA, ucp.OpGet: RMA,
}

// allows says whether the context was made for an operation. Release builds of UCX do
// not look: a tag message sent without the feature vanishes and reports success.
func (c *Context) allows(op ucp.Op) error { return c.has(featureOf[op]) }

func (c *Context) has(f Features) error {
	if f&^c.cfg.Features == 0 {
		return nil
	}
	return fmt.Errorf("ucx: the context does not have the feature %s; add it to Config.Features: %w", f&^c.cfg.Features, ErrUnsupported)
}

var featureNames = []struct {
	f    Features
	name string
}{
	{Tag, "Tag"}, {RMA, "RMA"}, {Atomic32, "Atomic32"}, {Atomic64, "Atomic64"},
	{Wakeup, "Wakeup"}, {Stream, "Stream"}, {ActiveMsg, "ActiveMsg"},
}

// String returns the names of the features, "Tag|RMA".
func (f Features) String() string {
	var names []string
	for _, n := range featureNames {
		if f&n.f != 0 {
			names = append(names, n.name)
			f &^= n.f
		}
	}
	if f != 0 || names == nil {
		names = append(names, fmt.Sprintf("%#x", uint64(f)))
	}
	return strings.Join(names, "|")
}
