//go:build cgo

package ucp

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// mirrors are the Go structs that lie over C memory.
var mirrors = []struct {
	c  string
	in reflect.Type
}{
	{"ms_slot", reflect.TypeFor[Slot]()},
	{"ms_event", reflect.TypeFor[Event]()},
	{"ms_stats", reflect.TypeFor[Stats]()},
	{"ms_worker", reflect.TypeFor[Worker]()},
}

// cNames are fields whose C name does not follow from the Go name.
var cNames = map[string]string{
	"Slot.HdrBuf": "hdrbuf", "Slot.Inline": "inl", "Slot.EP": "ep", "Slot.RTag": "rtag", "Slot.RLen": "rlen",
	"Slot.HdrLen": "hdrlen", "Slot.MemType": "memtype", "Slot.onEP": "on_ep", "Slot.onRkey": "on_rkey",
	"Event.ReplyEP": "reply_ep", "Event.HdrLen": "hdrlen", "Event.AMKind": "am_kind", "Event.AddrLen": "addrlen",
	"Stats.AMReceived": "am_received", "Stats.AMBytes": "am_bytes", "Stats.AMDropped": "am_dropped",
	"Stats.EPErrors": "ep_errors", "Stats.EPCreated": "ep_created", "Stats.EPClosed": "ep_closed",
	"Worker.EFD": "efd", "Worker.WakeFDPlus1": "wakefd_plus1", "Worker.AMQueued": "am_queued",
	"Worker.AMLimit": "am_limit", "Worker.rkeys": "rkeys_free",
}

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

func cName(typ, field string) string {
	if n, ok := cNames[typ+"."+field]; ok {
		return n
	}
	return strings.ToLower(camel.ReplaceAllString(field, "${1}_$2"))
}

// TestLayout compares size and the offset and size of every field of the Go mirrors
// with the C structs, as the C compiler lays them out.
func TestLayout(t *testing.T) {
	var body strings.Builder
	type want struct{ key, value string }
	var wants []want
	for _, m := range mirrors {
		fmt.Fprintf(&body, "    printf(\"%s %%zu\\n\", sizeof(%s));\n", m.c, m.c)
		size := m.in.Size()
		if m.c == "ms_worker" {
			size = (size + 63) &^ 63 // C rounds up to its cache lines; only C allocates it
		}
		wants = append(wants, want{m.c, fmt.Sprint(size)})
		for i := range m.in.NumField() {
			f := m.in.Field(i)
			if f.Name == "_" {
				continue
			}
			c := cName(m.in.Name(), f.Name)
			size := fmt.Sprintf("sizeof(((%s *)0)->%s)", m.c, c)
			if m.c+"."+c == "ms_worker.rkeys_free" {
				size = "3 * " + size // three pointers in a row that Go does not tell apart
			}
			fmt.Fprintf(&body, "    printf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), %s);\n", m.c, c, m.c, c, size)
			wants = append(wants, want{m.c + "." + c, fmt.Sprintf("%d %d", f.Offset, f.Type.Size())})
		}
	}
	body.WriteString("    printf(\"ms_ep.h %zu\\n\", offsetof(ms_ep, h));\n")
	wants = append(wants, want{"ms_ep.h", "0"})
	got := cProgram(t, []string{"."}, `#include "shim.h"`, body.String())
	for _, w := range wants {
		if got[w.key] != w.value {
			t.Errorf("%s: C has %s, Go has %s", w.key, got[w.key], w.value)
		}
	}
	// A field that C has and Go leaves out would hide in padding.
	for _, m := range mirrors {
		end := uintptr(0)
		for i := range m.in.NumField() {
			f := m.in.Field(i)
			if f.Offset != end && f.Offset-end >= 8 {
				t.Errorf("%s: %d unnamed bytes before %s", m.in.Name(), f.Offset-end, f.Name)
			}
			end = f.Offset + f.Type.Size()
		}
	}
}

// TestLayoutConstants compares the numbers that both sides use.
func TestLayoutConstants(t *testing.T) {
	pairs := map[string]int64{
		"MS_INLINE": InlineSize, "MS_HEADER": HeaderSize, "MS_EP_BUCKETS": epBuckets, "MS_SPARE_EVENTS": spareEvents,
		"MS_OP_NONE": int64(OpNone), "MS_OP_TAG_SEND": int64(OpTagSend), "MS_OP_TAG_SEND_SYNC": int64(OpTagSendSync),
		"MS_OP_TAG_RECV": int64(OpTagRecv), "MS_OP_TAG_MSG_RECV": int64(OpTagMsgRecv),
		"MS_OP_STREAM_SEND": int64(OpStreamSend), "MS_OP_STREAM_RECV": int64(OpStreamRecv),
		"MS_OP_AM_SEND": int64(OpAMSend), "MS_OP_AM_RECV": int64(OpAMRecv), "MS_OP_PUT": int64(OpPut),
		"MS_OP_GET": int64(OpGet), "MS_OP_ATOMIC": int64(OpAtomic), "MS_OP_EP_FLUSH": int64(OpEPFlush),
		"MS_OP_WORKER_FLUSH": int64(OpWorkerFlush), "MS_OP_EP_CLOSE": int64(OpEPClose), "MS_OP_CALL": int64(OpCall),
		"MS_OP_COUNT": int64(OpCount),
		"MS_FREE":     Free, "MS_QUEUED": Queued, "MS_SUBMITTING": Submitting, "MS_PENDING": Pending, "MS_DONE": Done,
		"MS_WAITING": Waiting,
		"MS_F_IOV":   int64(FlagIOV), "MS_F_WAITALL": int64(FlagWaitAll), "MS_F_REPLY": int64(FlagReply),
		"MS_F_EAGER": int64(FlagEager), "MS_F_RNDV": int64(FlagRndv), "MS_F_FORCE": int64(FlagForce),
		"MS_F_CANCELED": int64(FlagCanceled), "MS_F_MULTI_SEND": int64(FlagMultiSend),
		"MS_F_EVENTS": int64(FlagEvents), "MS_F_ORDERED": int64(FlagOrdered),
		"MS_EV_EP_ERROR": EventEPError, "MS_EV_CONN_REQUEST": EventConnRequest, "MS_EV_AM": EventAM,
		"MS_EV_AM_OVERFLOW": EventAMOverflow, "MS_AM_COPY": AMCopy, "MS_AM_DESC": AMDesc, "MS_AM_RNDV": AMRndv,
		"MS_R_OWN": ResultOwn, "MS_R_WORK": ResultWork, "MS_R_TIMEOUT": ResultTimeout, "MS_R_RELEASED": ResultReleased,
		"MS_R_NOARM":       ResultNoArm,
		"UX_THREAD_SINGLE": ThreadSingle, "UX_THREAD_SERIALIZED": ThreadSerialized, "UX_THREAD_MULTI": ThreadMulti,
	}
	var body strings.Builder
	for c := range pairs {
		fmt.Fprintf(&body, "    printf(\"%s %%lld\\n\", (long long)%s);\n", c, c)
	}
	got := cProgram(t, []string{"."}, `#include "shim.h"`, body.String())
	for c, want := range pairs {
		if got[c] != fmt.Sprint(want) {
			t.Errorf("%s is %s in C, %d in Go", c, got[c], want)
		}
	}
	// Nothing that C numbers is missing above.
	text, err := os.ReadFile("shim.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\bMS_[A-Z_0-9]*[A-Z0-9]\b`).FindAllString(string(text), -1) {
		if _, ok := pairs[m]; !ok {
			t.Errorf("shim.h: %s is not compared with Go", m)
		}
	}
	// The features are UCX's own bits.
	table := readABI(t)
	features := map[string]int64{
		"UCP_FEATURE_TAG": FeatureTag, "UCP_FEATURE_RMA": FeatureRMA, "UCP_FEATURE_AMO32": FeatureAMO32,
		"UCP_FEATURE_AMO64": FeatureAMO64, "UCP_FEATURE_WAKEUP": FeatureWakeup, "UCP_FEATURE_STREAM": FeatureStream,
		"UCP_FEATURE_AM": FeatureAM,
	}
	for _, k := range table.consts {
		if v, ok := features[k.name]; ok && v != k.value {
			t.Errorf("%s is %d in Go, %d in UCX", k.name, v, k.value)
		}
	}
}

// TestCallOrder compares the table of calls in endpoint.c with the constants that index it.
func TestCallOrder(t *testing.T) {
	text, err := os.ReadFile("endpoint.c")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)static const ms_call calls\[\] = \{(.*?)\};`).FindSubmatch(text)
	if m == nil {
		t.Fatal("endpoint.c has no table of calls")
	}
	var inC []string
	for f := range strings.FieldsFuncSeq(string(m[1]), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		inC = append(inC, strings.TrimPrefix(strings.TrimPrefix(f, "ms_"), "call_"))
	}
	file, err := parser.ParseFile(token.NewFileSet(), "layout.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var inGo []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(s.Names[0].Name, "Call") &&
			s.Names[0].Name != "CallCount" {
			inGo = append(inGo, callName(strings.TrimPrefix(s.Names[0].Name, "Call")))
		}
		return true
	})
	if len(inGo) != int(CallCount) || !reflect.DeepEqual(inC, inGo) {
		t.Errorf("endpoint.c: %v\nlayout.go:  %v", inC, inGo)
	}
}

// callName turns EPCreate into ep_create.
func callName(s string) string {
	for _, abbr := range []string{"EP", "AM"} {
		if rest, ok := strings.CutPrefix(s, abbr); ok {
			return strings.ToLower(abbr) + "_" + callName(rest)
		}
	}
	return strings.ToLower(camel.ReplaceAllString(s, "${1}_$2"))
}
