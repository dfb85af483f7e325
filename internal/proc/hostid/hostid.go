// Package hostid identifies the machine that a process runs on, and the namespaces of its kernel.
package hostid

import (
	"bytes"
	"os"
)

// Boot identifies this machine since its start; "" where the kernel does not tell.
func Boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// In identifies the machine and this process' namespace of a kind, such as "pid" or "net", in it; "" if either is not
// known.
func In(kind string) string {
	boot := Boot()
	space, err := os.Readlink("/proc/self/ns/" + kind)
	if boot == "" || err != nil {
		return ""
	}
	return boot + " " + space
}
