package leak

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// IPSockets returns the open IP sockets of a process, as in the kernel tables, for tests of code that must not use IP.
func IPSockets(pid int) ([]string, error) {
	root := fmt.Sprintf("/proc/%d", pid)
	fds, err := filepath.Glob(root + "/fd/*")
	if err != nil || len(fds) == 0 {
		return nil, fmt.Errorf("leak: list descriptors of process %d: %w", pid, err)
	}
	own := map[string]bool{} // inodes of sockets
	for _, fd := range fds {
		target, _ := os.Readlink(fd) // empty if the descriptor was closed meanwhile
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var found []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6"} {
		lines, err := kernelTable(filepath.Join(root, "net", table))
		if err != nil {
			return nil, err
		}
		for _, fields := range lines {
			if own[fields[inodeField]] {
				found = append(found, table+" "+fields[1]+" "+fields[2])
			}
		}
	}
	return found, nil
}

// inodeField is the index of the inode in a line of /proc/net/tcp and similar tables.
const inodeField = 9

// kernelTable returns the lines of a kernel table without the heading. Tables of IPv6 may be missing.
func kernelTable(path string) (lines [][]string, err error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > inodeField && fields[0] != "sl" {
			lines = append(lines, fields)
		}
	}
	return lines, nil
}
