// Package hostid identifies the machine that a process runs on, and the namespaces of its kernel.
package hostid

import (
	"bytes"
	"os"
)

// Boot identifies this machine since its boot; "" if the kernel does not report it.
func Boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// In identifies the machine and this process's namespace of a kind, such as "pid" or "net"; "" if either is unknown.
func In(kind string) string {
	boot := Boot()
	space, err := os.Readlink("/proc/self/ns/" + kind)
	if boot == "" || err != nil {
		return ""
	}
	return boot + " " + space
}
