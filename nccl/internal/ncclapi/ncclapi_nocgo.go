//go:build !cgo

package ncclapi

import "errors"

// Cgo reports whether this binary can load NCCL.
const Cgo = false

// Load reports that this binary cannot use NCCL.
func Load(string, bool) error { return errors.New("this binary was built without cgo") }

// Path is always "".
func Path() string { return "" }

// Version is always 0.
func Version() int { return 0 }

func libraryText(Result) string { return "" }

// LastError is always "".
func LastError(uint64) string { return "" }

// UniqueID returns NotLoaded.
func UniqueID(*[128]byte) Result { return NotLoaded }

// Init returns NotLoaded.
func Init(uintptr, int, int, *[128]byte, int, *Settings) (uint64, Result) { return 0, NotLoaded }

// Split returns NotLoaded.
func Split(uintptr, int, uint64, int, int, *Settings) (uint64, Result) { return 0, NotLoaded }

// Shrink returns NotLoaded.
func Shrink(uintptr, int, uint64, []int32, bool, *Settings) (uint64, Result) { return 0, NotLoaded }

// Peek returns nothing.
func Peek(uint64) uint64 { return 0 }

// Free does nothing.
func Free(uint64) {}

// Place returns NotLoaded.
func Place(uint64) (rank, ranks int, r Result) { return 0, 0, NotLoaded }

// AsyncError returns NotLoaded.
func AsyncError(uint64) Result { return NotLoaded }

// Finalize returns NotLoaded.
func Finalize(uintptr, int, uint64) Result { return NotLoaded }

// Destroy returns NotLoaded.
func Destroy(uintptr, int, uint64) Result { return NotLoaded }

// Abort returns NotLoaded.
func Abort(uintptr, int, uint64) Result { return NotLoaded }

// Register returns NotLoaded.
func Register(uintptr, int, uint64, uintptr, int) (uint64, Result) { return 0, NotLoaded }

// Deregister returns NotLoaded.
func Deregister(uintptr, int, uint64, uint64) Result { return NotLoaded }

// RegisterWindow returns NotLoaded.
func RegisterWindow(uintptr, int, uint64, uintptr, int) (uint64, Result) { return 0, NotLoaded }

// PeekWindow returns nothing.
func PeekWindow(uint64) uint64 { return 0 }

// DeregisterWindow returns NotLoaded.
func DeregisterWindow(uintptr, int, uint64, uint64) Result { return NotLoaded }

// Has is always false.
func Has(int) bool { return false }

// PreMulSum returns NotLoaded.
func PreMulSum(uint64, []byte, int) (int, Result) { return 0, NotLoaded }

// RedOpDestroy returns NotLoaded.
func RedOpDestroy(uint64, int) Result { return NotLoaded }

// Run returns NotLoaded.
func Run(uintptr, int, uint64, uintptr, []Op) Result { return NotLoaded }
