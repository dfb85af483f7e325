//go:build !cgo

package ucp

import "unsafe"

// Cgo reports whether native code was compiled in.
const Cgo = false

// unsupported is UCS_ERR_UNSUPPORTED. Nothing below Load is reachable without a library, so these bodies only satisfy
// the compiler.
const unsupported = -22

func Load(string, bool) error                              { return ErrNoCgo }
func Setenv(string, string)                                {}
func LoadedPath() string                                   { return "" }
func Quarantined() int                                     { return 0 }
func Version() (major, minor, release int)                 { return 0, 0, 0 }
func DeviceHooks(uintptr, uintptr)                         {}
func MarkCloseOnExec()                                     {}
func TakeText(uint64) string                               { return "" }
func DestroyWorker(*Worker, bool)                          {}
func ShutAMIDs(*Worker) int                                { return unsupported }
func FreeWorker(*Worker)                                   {}
func EPNumber(*Worker, unsafe.Pointer) uint64              { return 0 }
func QueryWorker(*Worker) (int, uint64, int)               { return 0, 0, unsupported }
func Drive(*Worker, *Slot, int64) int                      { return ResultTimeout }
func Leave(*Worker) int                                    { return ResultReleased }
func Block(*Worker, int) int                               { return ResultTimeout }
func NewSlots(*Worker, int, int) []Slot                    { return nil }
func FreeSlots([]Slot)                                     {}
func FreeEvent(*Worker, *Event)                            {}
func BorrowEP(*Worker, unsafe.Pointer) *EP                 { return nil }
func CallPointer(Call) unsafe.Pointer                      { return nil }
func Malloc(int) unsafe.Pointer                            { return nil }
func FreeMemory(unsafe.Pointer)                            {}
func NewWorker(*Context, int, string, bool) (*Worker, int) { return nil, unsupported }

// Config is a ucp_config_t.
type Config struct{}

func ReadConfig() (*Config, int)          { return nil, unsupported }
func (*Config) Modify(string, string) int { return unsupported }
func (*Config) Text() string              { return "" }
func (*Config) Release()                  {}

// Context is a ucp_context_h.
type Context struct{}

func NewContext(*Config, uint64, string, int) (*Context, int) { return nil, unsupported }
func (*Context) Free()                                        {}
func (*Context) Text() string                                 { return "" }
func (*Context) Query() (uint64, int, string, int)            { return 0, 0, "", unsupported }
func (*Context) MemUnmap(unsafe.Pointer, int) int             { return unsupported }
func (*Context) RkeyPack(unsafe.Pointer, int) ([]byte, int)   { return nil, unsupported }
func (*Context) MemMap(uintptr, uint64, int, int, bool) (unsafe.Pointer, uintptr, int) {
	return nil, 0, unsupported
}
