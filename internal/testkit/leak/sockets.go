package leak

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// IPSockets lists the sockets of IP that a process has open, as kernel tables show them: for tests of what must do
// without.
func IPSockets(pid int) ([]string, error) {
	root := fmt.Sprintf("/proc/%d", pid)
	fds, err := filepath.Glob(root + "/fd/*")
	if err != nil || len(fds) == 0 {
		return nil, fmt.Errorf("leak: no descriptors of process %d can be seen: %w", pid, err)
	}
	own := map[string]bool{} // inodes of sockets
	for _, fd := range fds {
		target, _ := os.Readlink(fd) // one that was closed meanwhile is none
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

// inodeField is the place of a socket's inode in a line of /proc/net/tcp and its like.
const inodeField = 9

// kernelTable are the lines of a kernel table behind its heading. A kernel without IPv6 has none.
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
