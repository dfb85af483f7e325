package stdio

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The child claims its output, then prints to both the claimed file and file
// descriptor 1, as a native library would.
func TestMain(m *testing.M) {
	switch os.Getenv("MILLSTREAM_TEST_CLAIM") {
	case "":
		os.Exit(m.Run())
	case "closed":
		unix.Close(unix.Stderr)
	}
	out := Claim()
	fmt.Fprintln(out, "result")
	unix.Write(unix.Stdout, []byte("chatter\n"))
	os.Exit(0)
}

func run(t *testing.T, mode string) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "MILLSTREAM_TEST_CLAIM="+mode)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String()
}

func TestClaim(t *testing.T) {
	if stdout, stderr := run(t, "open"); stdout != "result\n" || stderr != "chatter\n" {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	if stdout, _ := run(t, "closed"); stdout != "result\nchatter\n" {
		t.Errorf("without standard error: stdout %q", stdout)
	}
}
